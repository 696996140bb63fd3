"""Read a ``vllm serve`` command line as a release's own parser would, and say what it would refuse.

The walk follows argparse (Python 3.12, what the images ship) and vLLM's FlexibleArgumentParser on top of it:
unique prefixes, ``_`` for ``-``, ``--flag=value``, dotted keys, ``-O3``, values by ``nargs``. Unlike the real
parser it goes on after the first fault, so that every one can be named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wizard.i18n import _

from .types import ArgProblem, Option, Release

SEPARATOR = "--"  # ends the options
_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")


class BadValue(ValueError):
    """A value that the release's parser refuses."""


# --- values --------------------------------------------------------------------------------------------------


def _int(text: str) -> None:
    try:
        int(text)
    except ValueError:
        raise BadValue(_("{value!r} is not a whole number").format(value=text)) from None


def _float(text: str) -> None:
    try:
        float(text)
    except ValueError:
        raise BadValue(_("{value!r} is not a number").format(value=text)) from None


_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")


def human_int(text: str) -> int:
    """"32k" is 32000, "32K" is 32768, "1.5m" is 1500000; a decimal before K, M, G, T is refused."""
    text = text.strip()
    found = _HUMAN.fullmatch(text)
    if found:
        number, suffix = found.groups()
        power = "kmgt".index(suffix.lower()) + 1
        if suffix.islower():
            return int(float(number) * 10 ** (3 * power))
        if "." in number:
            raise BadValue(
                _("{value!r}: no decimals before {suffix}; {better!r} is decimal").format(
                    value=text, suffix=suffix, better=number + suffix.lower()
                )
            )
        return int(number) << (10 * power)
    try:
        return int(text)
    except ValueError:
        raise BadValue(
            _("{value!r} is not a whole number (32k is 32000, 32K is 32768)").format(value=text)
        ) from None


def _human_int(text: str) -> None:
    human_int(text)


def _json(text: str) -> None:
    load_json(text)


def load_json(text: str) -> Any:
    """The value of a JSON argument; BadValue says what is wrong with it."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadValue(_("{value!r} is not valid JSON: {problem}").format(value=_short(text), problem=error)) from None


def _json_human(text: str) -> Any:
    """JSON in which bare numbers may carry a suffix (80g), as 0.23 and later read dataclass options."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for position in range(0, len(parts), 2):
        parts[position] = re.sub(
            r"\b\d+(?:\.\d+)?[kKmMgGtT]\b", lambda m: str(human_int(m.group())), parts[position]
        )
    return load_json("".join(parts))


def _json_or_str(text: str) -> None:
    if re.match(r"(?s)^\s*{.*}\s*$", text):
        load_json(text)


def _key_values(text: str) -> None:
    seen: dict[str, int] = {}
    for item in text.split(","):
        parts = [p.strip().lower() for p in item.split("=")]
        if len(parts) != 2:
            raise BadValue(_("{value!r} is not of the form name=number,...").format(value=text))
        try:
            number = int(parts[1])
        except ValueError:
            raise BadValue(_("{value!r}: {item!r} has no number").format(value=text, item=item)) from None
        if seen.setdefault(parts[0], number) != number:
            raise BadValue(_("{value!r} names {key!r} twice").format(value=text, key=parts[0]))


def _json_or_key_values(text: str) -> None:
    if re.match(r"(?s)^{.*}$", text):
        load_json(text)
    else:
        _key_values(text)


def _json_or_level(text: str) -> None:
    if text not in ("0", "1", "2", "3"):
        load_json(text)


def _device_ids(text: str) -> None:
    return


READERS: dict[str, Callable[[str], None]] = {
    "int": _int,
    "float": _float,
    "human_int": _human_int,
    "json": _json,
    "json_or_str": _json_or_str,
    "key_values": _key_values,
    "json_or_key_values": _json_or_key_values,
    "json_or_level": _json_or_level,
}


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def check_value(option: Option, text: str, release: Release) -> None:
    """Raise :class:`BadValue` if one value of an option would be refused."""
    if option.optional and text in ("", "None"):
        if option.choices is not None and not option.none_choice and not option.computed_choices:
            raise BadValue(
                _("{value!r} is not one of: {choices}").format(value=text, choices=", ".join(option.choices))
            )
        return
    if option.also_auto and (text.strip() == "-1" or text.strip().lower() == "auto"):
        return
    if option.value_type == "dataclass":
        _check_dataclass(option, text, release)
    reader = READERS.get(option.value_type)
    if reader is not None:
        reader(text)
    if option.choices is None or option.computed_choices:
        return
    value = text
    if option.value_type == "lower_underscore":
        value = text.lower().replace("-", "_")
    if option.value_type == "int":
        value = str(int(text))
    if value not in option.choices:
        raise BadValue(
            _("{value!r} is not one of: {choices}").format(value=_short(text), choices=", ".join(option.choices))
        )


def _check_dataclass(option: Option, text: str, release: Release) -> None:
    value = _json_human(text) if release.parser.human_dotted else load_json(text)
    if not isinstance(value, dict):
        raise BadValue(_("{value!r} is not a JSON object").format(value=_short(text)))
    unknown = [k for k in value if option.keys and k not in option.keys]
    if unknown and option.closed:
        raise BadValue(_unknown_key(option, unknown[0]))
    for key, item in value.items():
        allowed = option.key_types.get(key)
        if allowed is not None and not fits_type(item, allowed):
            raise BadValue(
                _("{flag}: {key} cannot be {value}; allowed: {allowed}").format(
                    flag=option.flag, key=key, value=json.dumps(item), allowed=", ".join(a.lstrip("=") for a in allowed)
                )
            )


def _unknown_key(option: Option, key: str) -> str:
    near = difflib.get_close_matches(key, option.keys, 1)
    hint = _(" (is {near!r} meant?)").format(near=near[0]) if near else ""
    return _("{flag} has no key {key!r}{hint}; keys: {keys}").format(
        flag=option.flag, key=key, hint=hint, keys=", ".join(option.keys)
    )


_TRUTHS = frozenset(("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"))


def fits_type(value: Any, allowed: Sequence[str]) -> bool:
    """Whether pydantic takes a JSON value for one of the plain types or words, converting as it does."""
    return any(_fits_one(value, name) for name in allowed)


def _fits_one(value: Any, name: str) -> bool:
    if name.startswith("="):
        return str(value) == name[1:] and not isinstance(value, (bool, float))
    if name == "null":
        return value is None
    if name == "str":
        return isinstance(value, str)
    if name == "list":
        return isinstance(value, list)
    if name == "dict":
        return isinstance(value, dict)
    if name == "bool":
        return isinstance(value, bool) or (isinstance(value, (int, float)) and value in (0, 1)) or (
            isinstance(value, str) and value.lower() in _TRUTHS
        )
    if isinstance(value, str):
        try:
            number = float(value.strip())
        except ValueError:
            return False
        return name == "float" or number.is_integer()
    return isinstance(value, int) or (isinstance(value, float) and (name == "float" or value.is_integer()))


# --- options -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _by_flag(release: Release) -> dict[str, Option]:
    table = {flag: option for option in release.options for flag in option.flags}
    table.setdefault("--help", _HELP)
    table.setdefault("-h", _HELP)
    return table


_HELP = Option(flags=("--help", "-h"), dest="help", kind="flag", action="help")


def normal_spelling(flag: str, keep_after_dot: bool = True) -> str:
    """"--max_model_len" -> "--max-model-len"; keys after a dot keep their underscores."""
    if not flag.startswith("--"):
        return flag
    head, dot, tail = flag[2:].partition(".")
    return "--" + head.replace("_", "-") + dot + (tail if keep_after_dot else tail.replace("_", "-"))


def find_option(release: Release, spelling: str) -> tuple[Option | None, str]:
    """The option that a spelling means to the release's parser, and how it was understood.

    ``how`` is "exact", "underscore", "prefix", "dotted" (joined by "+" where several apply), "ambiguous" or
    "unknown" (then the option is None). A "=value" at the end is not looked at.
    """
    name = spelling.split("=", 1)[0]
    how = []
    written = name
    if name.startswith("-") and "." in name and release.parser.dotted and not _NUMBER.match(name):
        how.append("dotted")
        name = name.split(".", 1)[0]
    normal = normal_spelling(name)
    if normal != name:
        how.append("underscore")
    table = _by_flag(release)
    if normal in table:
        return table[normal], "+".join(how) or "exact"
    if normal.startswith("--"):
        flags = [flag for flag in table if len(normal) > 2 and flag.startswith(normal)]
        if len(flags) == 1:
            return table[flags[0]], "+".join([*how, "prefix"])
        return None, "ambiguous" if flags else "unknown"
    if written.startswith("-O") and written != "-O" and release.parser.o_flag == "optimization_level" and "--optimization-level" in table:
        return table["--optimization-level"], "exact"
    if len(normal) > 2 and normal[:2] in table and not normal.startswith("--"):
        return table[normal[:2]], "attached"
    flags = [flag for flag in table if flag.startswith(normal) and len(normal) > 1]
    if len(flags) == 1:
        return table[flags[0]], "+".join([*how, "prefix"])
    return None, "ambiguous" if flags else "unknown"


def full_spelling(release: Release, spelling: str) -> str | None:
    """The full flag that a prefix or underscore spelling means ("--kv-cache-memory" -> "--kv-cache-memory-bytes")."""
    name = normal_spelling(spelling.split("=", 1)[0])
    head, dot, tail = name.partition(".")
    option, _how = find_option(release, name)
    if option is None:
        return None
    if head in option.flags:
        return name
    candidates = [flag for flag in option.flags if flag.startswith(head)]
    if not candidates:
        return option.flag + dot + tail
    return candidates[0] + dot + tail


@dataclass(frozen=True)
class Argument:
    """One option with its values, or one positional, as the parser takes the command line apart."""

    tokens: tuple[str, ...]  # as written
    written: str  # the flag as written, without "=value"; "" for a positional
    option: Option | None
    how: str  # see find_option; "positional", "opaque"
    values: tuple[str, ...]
    attached: bool = False  # --flag=value
    keys: tuple[str, ...] = ()  # dotted keys after the option

    @property
    def flag(self) -> str:
        """The normal spelling of what was written."""
        return normal_spelling(self.written)


def take_apart(argv: Sequence[str], release: Release, without_model: bool = False, opaque: Container[int] = ()) -> list[Argument]:
    """Split what follows ``vllm serve`` into options with their values, and positionals; ``without_model``: no word is
    the model. At the positions in ``opaque`` stands what the shell makes any number of words of: each is "opaque"."""
    found: list[Argument] = []
    position = 0
    only_positionals = False
    model_seen = without_model or any(token.partition("=")[0] == "--model" for token in argv)
    while position < len(argv):
        token = argv[position]
        if position in opaque:
            found.append(Argument((token,), "", None, "opaque", (token,)))
            position += 1
            continue
        if only_positionals or not _looks_like_option(token, release):
            found.append(Argument((token,), "", None, "positional", (token,)))
            model_seen = True
            position += 1
            continue
        if token == SEPARATOR:
            only_positionals = True
            position += 1
            continue
        if token.startswith("-O") and release.parser.o_flag != "attached":
            taken = _o_flag(argv, position, release)
            if taken is not None:
                found.append(taken)
                position += len(taken.tokens)
                continue
        name, equals, attached = token.partition("=")
        option, how = find_option(release, name)
        keys = tuple(normal_spelling(name).split(".")[1:]) if "dotted" in how or (
            option is None and release.parser.dotted and "." in name
        ) else ()
        if how == "attached" and not equals:
            found.append(Argument((token,), token[:2], option, how, (token[2:],), attached=True))
            position += 1
            continue
        values = [attached] if equals else []
        end = position + 1
        if not equals:
            if option is not None:
                most = _most_values(option, keys)
            else:
                words = next((i for i in range(end, len(argv)) if i in opaque or _looks_like_option(argv[i], release)), len(argv)) - end
                # Before the model, the last of several words may be the model.
                most = _guess_values(name, keys, words if model_seen else max(0, words - 1), release)
            while end < len(argv) and len(values) < most and end not in opaque and not _looks_like_option(argv[end], release):
                values.append(argv[end])
                end += 1
            if keys and not values and end < len(argv):  # a dotted key takes whatever comes next
                values.append(argv[end])
                end += 1
        found.append(Argument(tuple(argv[position:end]), name, option, how, tuple(values), bool(equals), keys))
        position = end
    return found


def _o_flag(argv: Sequence[str], position: int, release: Release) -> Argument | None:
    """-O3, -O=3, -O 3 and -Oname, which vLLM rewrites before argparse sees them; None: nothing of the kind."""
    word = argv[position]
    rule = release.parser.o_flag
    following = argv[position + 1] if position + 1 < len(argv) else ""
    if word == "-O":
        if following not in ("0", "1", "2", "3"):
            return None
        tokens: tuple[str, ...] = (word, following)
        value = following
    elif word.startswith("-O.") and (rule != "optimization_level" or release.parser.o_dotted):
        return None if rule != "optimization_level" else _o_dotted(argv, position, release)
    else:
        tokens, value = (word,), word[3:] if word[2] == "=" else word[2:]
    if rule == "optimization_level":
        return Argument(tokens, "-O", release.option("--optimization-level"), "exact", (value,), attached=True)
    option = release.option("--compilation-config")
    return Argument(tokens, "-O", option, "dotted", (value,), attached=True, keys=(rule,))


def _o_dotted(argv: Sequence[str], position: int, release: Release) -> Argument:
    name, equals, value = argv[position].partition("=")
    tokens: tuple[str, ...] = (argv[position],)
    if not equals and position + 1 < len(argv):
        value = argv[position + 1]
        tokens = (argv[position], value)
    option = release.option("--compilation-config")
    return Argument(tokens, name, option, "dotted", (value,), bool(equals), tuple(name.split(".")[1:]))


def _guess_values(name: str, keys: tuple[str, ...], at_most: int, release: Release) -> int:
    """How many words after a flag that the release does not have belong to it: what another release says, or the
    option that is likely meant, else all that may."""
    from . import flag_spans, load

    if keys:
        return 1
    runs = flag_spans(name)
    if runs:
        other = find_option(load(runs[-1][1]), name)[0]
        if other is not None:
            return _most_values(other, ())
    table = _by_flag(release)
    meant = [flag for flag in table if flag.startswith(normal_spelling(name))]
    near = nearest_flag(name, release) if not meant else None
    return min((_most_values(table[flag], ()) for flag in (meant if near is None else [near])), default=at_most)


def _most_values(option: Option, keys: tuple[str, ...]) -> int:
    if keys:
        return 1
    if option.action in ("store_true", "store_false", "bool", "help"):
        return 0
    if option.nargs in ("+", "*"):
        return 1 << 20
    if option.nargs is not None and option.nargs.isdigit():
        return int(option.nargs)
    return 1


_NEGATIVE_DECIMAL = re.compile(r"^-\d*\.\d*$")


def _looks_like_option(token: str, release: Release) -> bool:
    if len(token) < 2 or not token.startswith("-"):
        return False
    if release.parser.dotted and _NEGATIVE_DECIMAL.match(token):
        return True  # vLLM takes "-0.5" for an option with a dotted key
    if token == SEPARATOR:
        return True
    if _NUMBER.match(token):
        return False
    if " " in token:
        name = token.split("=", 1)[0]
        return "=" in token and " " not in name and find_option(release, name)[0] is not None
    return True


# --- checking ------------------------------------------------------------------------------------------------


def check_argv(argv: Sequence[str], version: str, conditions: Iterable[str] = ()) -> list[ArgProblem]:
    """What the release's parser would refuse in ``argv`` (what follows ``vllm serve``), in order.

    An empty list means that the real parser accepts it; deprecated options are named too (kind
    "deprecated"). ``conditions`` ("entrypoint:api_server", ...) say how the arguments are given.
    """
    from . import load

    release = load(version)
    problems: list[ArgProblem] = []
    has_model = False
    arguments = take_apart(argv, release)
    words = sum(a.how == "positional" for a in arguments)
    if release.parser.model_flag == "moved" and "entrypoint:api_server" not in conditions:
        # The first --model is moved to the front: a model given there as well is one word too many.
        has_model = any(a.flag == "--model" for a in arguments)
    for argument in arguments:
        if argument.how == "positional":
            if has_model:
                problems.append(_stray(argument, release))
            has_model = True
            continue
        problem = check_argument(argument, release, conditions)
        if problem is not None:
            if problem.accepted and argument.option is not None and _most_values(argument.option, ()) == 0:
                # vLLM makes JSON of it all the same; that JSON is then one word too many, or the model.
                problem = dataclasses.replace(problem, accepted=words == 0)
                words += 1
            problems.append(problem)
    return problems


def refused(problems: Iterable[ArgProblem]) -> list[ArgProblem]:
    """Those for which the parser stops."""
    return [p for p in problems if p.refused]


def _stray(argument: Argument, release: Release) -> ArgProblem:
    return ArgProblem(
        argument.values[0],
        "bad_value",
        _("{value!r} belongs to no option; the model is given once, before the options").format(
            value=_short(argument.values[0])
        ),
    )


def check_argument(argument: Argument, release: Release, conditions: Iterable[str] = ()) -> ArgProblem | None:
    """The problem of one option as written, or None."""
    option = argument.option
    if option is None:
        return unknown_flag(argument, release)
    if option.dest == "model" and argument.flag == "--model" and "entrypoint:api_server" not in conditions:
        if release.parser.model_flag == "refused":
            return ArgProblem(
                "--model", "bad_value", _("with vllm serve, the model is given without --model, right after serve")
            )
        if release.parser.model_flag == "moved" and argument.values:
            return ArgProblem(
                "--model",
                "deprecated",
                _("with vllm serve, the model is given without --model, right after serve; --model will be removed"),
            )
    try:
        _check_values(argument, option, release)
    except BadValue as error:
        return ArgProblem(argument.flag, "bad_value", str(error))
    if argument.keys and not option.dotted:
        return ArgProblem(
            argument.flag, "bad_value", _("{flag} takes no keys after a dot").format(flag=option.flag), accepted=True
        )
    if option.deprecated:
        return ArgProblem(
            argument.flag, "deprecated", _("{flag} is deprecated in {release}").format(flag=argument.flag, release=release.version)
        )
    return None


def _check_values(argument: Argument, option: Option, release: Release) -> None:
    if argument.keys:
        if not argument.values:
            raise BadValue(_("{flag} needs a value").format(flag=argument.written))
        for value in _dotted_values(argument, option, release):
            _check_one(value, option, release)
        return
    if _most_values(option, ()) == 0:
        if argument.attached:
            raise BadValue(
                _("{flag} takes no value; write {off} to turn it off").format(
                    flag=option.flag, off=negative_of(option) or _("nothing")
                )
            )
        return
    least = 0 if option.nargs in ("?", "*") else int(option.nargs) if option.nargs and option.nargs.isdigit() else 1
    if len(argument.values) < least:
        raise BadValue(
            _("{flag} needs a value").format(flag=argument.written)
            if least == 1
            else _("{flag} needs {count} values").format(flag=argument.written, count=least)
        )
    if option.action == "StoreBoolean":
        for value in argument.values:
            if value.lower() not in ("true", "false"):
                raise BadValue(_("{flag} takes true or false").format(flag=option.flag))
        return
    for value in argument.values:
        _check_one(value, option, release)


def _check_one(value: str, option: Option, release: Release) -> None:
    if option.action == "LoRAParserAction":
        _check_lora_module(value, option)
    elif option.dest == "config" and "--config" in option.flags and not value.endswith((".yaml", ".yml")):
        raise BadValue(_("{flag} takes a file that ends in .yaml or .yml, not {value!r}").format(flag="--config", value=value))
    else:
        check_value(option, value, release)


def _check_lora_module(text: str, option: Option) -> None:
    """``name=path``, or a JSON object with name and path."""
    if text in ("", "None") or ("=" in text and "," not in text):
        return
    value = load_json(text)
    known = set(option.keys) or {"name", "path", "base_model_name"}
    if not isinstance(value, dict) or not {"name", "path"} <= value.keys() or not value.keys() <= known:
        raise BadValue(
            _("{flag} takes name=path, or JSON with name and path, not {value!r}").format(
                flag=option.flag, value=_short(text)
            )
        )


def _dotted_values(argument: Argument, option: Option, release: Release) -> list[str]:
    """The JSON that vLLM makes of --option.key.key VALUE; nothing for a flag, which leaves it a stray word."""
    if _most_values(option, ()) == 0:
        return []
    *outer, last = argument.keys
    text = argument.values[0]
    value: Any
    if release.parser.dotted_list and last.endswith("+"):
        last, value = last[:-1], text.split(",")
    else:
        try:
            value = json.loads(text)
        except ValueError:
            value = text
            if release.parser.human_dotted:
                with contextlib.suppress(BadValue):
                    value = human_int(text)
    nested: Any = {last: value}
    for key in reversed(outer):
        nested = {key: nested}
    return [json.dumps(nested)]


# From 0.33 on every switch called the one has the other as its opposite.
_OPPOSITES = (("--enable-", "--disable-"), ("--disable-", "--enable-"))


def switches_off(option: Option, spelling: str) -> bool:
    """Whether this spelling of a switch is its opposite: "--no-enable-lora", "--disable-lora" of ``--enable-lora``."""
    if option.kind not in ("flag", "optional_flag"):
        return False
    flag = normal_spelling(spelling.partition("=")[0])
    if flag not in option.flags:  # a prefix of one, or of several that mean the same
        flag = next((f for f in option.flags if f.startswith(flag)), option.flag)
    if flag == option.flag:
        return False
    if flag.startswith("--no-"):
        return "--" + flag[len("--no-") :] in option.flags
    return any(flag.startswith(ours) and theirs + flag[len(ours) :] == option.flag for ours, theirs in _OPPOSITES)


def negative_of(option: Option) -> str | None:
    """The spelling that turns a switch off, "--no-enable-lora"; None where the release has none."""
    return next((flag for flag in option.flags if switches_off(option, flag)), None)


def switch_text(option: Option, spelling: str, text: str) -> str:
    """What ``text`` ("true", "no", ...) said of this spelling of a switch says of the option itself: of an opposite the
    contrary. Other texts, and those of other options, stay as they are."""
    word = text.strip().lower()
    if word not in (*YES, *NO) or not switches_off(option, spelling):
        return text
    return "false" if word in YES else "true"


# How an answer or a configuration file spells that a switch is on, or off.
YES = ("true", "yes", "on", "1", "")
NO = ("false", "no", "off", "0")


def unknown_flag(argument: Argument, release: Release) -> ArgProblem:
    """What to say of a flag that the release does not take: too old, too new, misspelt, or never there."""
    from . import flag_spans, next_version, version_key

    flag = argument.flag.split(".", 1)[0]
    runs = flag_spans(flag)
    here = version_key(release.version)
    earlier = [r for r in runs if version_key(r[1]) < here]
    later = [r for r in runs if version_key(r[0]) > here]
    if earlier:
        last = earlier[-1][1]
        gone = next_version(last)
        return ArgProblem(
            argument.flag,
            "removed",
            _("{flag} was removed in {gone} (last in {last})").format(flag=flag, gone=gone, last=last),
            since=gone,
            until=last,
        )
    if later:
        return ArgProblem(
            argument.flag,
            "not_yet",
            _("{flag} came with {first}; {release} does not have it").format(
                flag=flag, first=later[0][0], release=release.version
            ),
            since=later[0][0],
        )
    if argument.how == "ambiguous":
        near = sorted(f for f in _by_flag(release) if f.startswith(flag))
        return ArgProblem(
            argument.flag,
            "misspelt",
            _("{flag} is ambiguous: {near}").format(flag=flag, near=", ".join(near[:6])),
            replacement=near[0] if near else None,
        )
    meant = nearest_flag(flag, release)
    if meant is not None:
        return ArgProblem(
            argument.flag,
            "misspelt",
            _("no release has {flag}; {near} is near").format(flag=flag, near=meant),
            replacement=meant,
        )
    return ArgProblem(argument.flag, "never_existed", _("no vLLM release has {flag}").format(flag=flag))


def nearest_flag(flag: str, release: Release) -> str | None:
    """The release's flag that a misspelling most likely means, or None."""
    plain = "--" + flag.lstrip("-").replace("_", "-").lower()
    table = [f for f in _by_flag(release) if f.startswith("--")]
    if plain in table:
        return plain
    matches = difflib.get_close_matches(plain, table, 1, cutoff=0.87)
    return matches[0] if matches else None
