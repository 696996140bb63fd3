"""``vllm-wizard releases list|show|update|probe``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.errors import BadInput, WizardError
from wizard.i18n import _, bracketed, labelled, listed, ngettext

if TYPE_CHECKING:
    import argparse

    from .types import ImageInfo, Option, Release

ACTIONS = ("list", "show", "update", "probe")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words and options of ``vllm-wizard releases``."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=ACTIONS,
        metavar="list | show | update | probe",
        help=_(
            "list: all known releases; show: what one release accepts; update: read newer releases from the package "
            "index; probe: read a vLLM that is installed here, or lies in a local image"
        ),
    )
    parser.add_argument("words", nargs="*", metavar="V", help=_("show, update: the release, such as 0.33.0 or latest"))
    parser.add_argument("--release", metavar="V", help=_("show: the same as V"))
    parser.add_argument("--flag", metavar="FLAG", help=_("show: only this option, with the releases that have it"))
    parser.add_argument("--python", metavar="PATH", help=_("probe: the Python interpreter that has vLLM"))
    parser.add_argument("--image", metavar="IMAGE", help=_("probe: a container image on this machine"))


def run(args: argparse.Namespace | list[str]) -> int:
    """Run the chosen action; 0 fine, 1 it could not be done. Words are parsed first when a list is given."""
    chosen = _parse(args) if isinstance(args, list) else args
    as_json = bool(getattr(chosen, "json", False))
    words: list[str] = list(chosen.words)
    if chosen.action == "show":
        named = words or ([chosen.release] if chosen.release else [])
        if len(named) > 1:
            raise BadInput(_("releases show takes one release."))
        return _show(named[0] if named else "latest", chosen.flag, as_json)
    if chosen.action == "update":
        return _update(words, as_json)
    if chosen.action == "probe":
        return _probe(chosen, words, as_json)
    if words:
        raise BadInput(_("releases list takes no word; is releases show {word} meant?").format(word=words[0]))
    return _list(as_json)


def _parse(words: list[str]) -> argparse.Namespace:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise BadInput(message)

    parser = Parser(prog="vllm-wizard releases")
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--machine")
    return parser.parse_args(words)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=1, ensure_ascii=False))


# --- list ----------------------------------------------------------------------------------------------------


def _list(as_json: bool) -> int:
    from . import load, versions

    releases = [load.__wrapped__(v) for v in reversed(versions())]
    if as_json:
        _print_json([_summary(r) for r in releases])
        return 0
    head = (_("release"), _("date"), _("torch"), _("Python"), _("image CUDA"), _("options"), _("models"))
    rows = [head]
    for release in releases:
        rows.append(
            (
                release.version,
                release.released or "-",
                release.torch or "-",
                release.requires_python or "-",
                release.image.cuda or "-",
                str(len(release.options)),
                str(len(release.architectures)),
            )
        )
    widths = [max(columns.width(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        print("  ".join(columns.pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _summary(release: Release) -> dict[str, Any]:
    return {
        "version": release.version,
        "released": release.released,
        "torch": release.torch,
        "requires_python": release.requires_python,
        "cuda": release.image.cuda,
        "options": len(release.options),
        "architectures": len(release.architectures),
    }


# --- show ----------------------------------------------------------------------------------------------------


def release_json(release: Release) -> dict[str, Any]:
    """All facts of a release as plain data: what ``releases show --json`` prints."""
    from .images import image_for, image_variants

    images = {vendor: image_for(release, vendor) for vendor in ("nvidia", "amd", "cpu", "intel")}
    return {
        "version": release.version,
        "exact": release.exact,
        "asked": release.asked,
        "released": release.released,
        "options": [_option_json(o) for o in release.options],
        "env": sorted(release.env),
        "architectures": sorted(release.architectures),
        "architecture_kinds": {kind: sorted(names) for kind, names in release.architecture_kinds},
        "quantization": list(release.quantization),
        "kv_cache_dtypes": list(release.kv_cache_dtypes),
        "tool_parsers": list(release.tool_parsers),
        "reasoning_parsers": list(release.reasoning_parsers),
        "torch": release.torch,
        "transformers": release.transformers,
        "requires_python": release.requires_python,
        "image": _image_json(release.image) | {"variants": list(image_variants(release))},
        "images": {vendor: image.reference for vendor, image in images.items() if image is not None},
    }


def _option_json(option: Option) -> dict[str, Any]:
    data: dict[str, Any] = {
        "flags": list(option.flags),
        "dest": option.dest,
        "kind": option.kind,
        "choices": None if option.choices is None else list(option.choices),
        "default": option.default,
        "deprecated": option.deprecated,
        "nargs": option.nargs,
    }
    if option.computed_choices:
        data["computed_choices"] = True
    if option.default_computed:
        data["default_computed"] = True
    if option.known_values:
        data["known_values"] = list(option.known_values)
    if option.start_values:
        data["start_values"] = list(option.start_values)
        data["start_others"] = option.start_others
    if option.limits:
        data["limits"] = dict(option.limits)
    if option.keys:
        data["keys"] = list(option.keys)
    return data


def _image_json(image: ImageInfo) -> dict[str, Any]:
    return {
        "repository": image.repository,
        "tag": image.tag,
        "reference": image.reference,
        "cuda": image.cuda,
        "min_driver": image.min_driver,
        "arch_list": list(image.arch_list),
        "ptx": image.ptx,
        "entrypoint": list(image.entrypoint),
    }


def _show(version: str, flag: str | None, as_json: bool) -> int:
    from . import load, stand_in

    release = load(version)
    if not release.exact:
        print(_("{asked} is not known; this is {stand_in}.").format(asked=version, stand_in=stand_in(release)), file=sys.stderr)
    if flag:
        return _show_flag(release, flag, as_json)
    data = release_json(release)
    if as_json:
        _print_json(data)
        return 0
    _print_release(release, data)
    return 0


def _print_release(release: Release, data: dict[str, Any]) -> None:
    image = release.image
    lines = [
        _("vLLM {version}").format(version=release.version) + (f" ({release.released})" if release.released else ""),
        _("  needs torch {torch}, Python {python}, transformers {transformers}").format(
            torch=release.torch or "?", python=release.requires_python or "?", transformers=release.transformers or "?"
        ),
        _("  image {reference}: CUDA {cuda}, driver {driver} or newer, GPUs of compute capability {list}").format(
            reference=image.reference,
            cuda=image.cuda or "?",
            driver=image.min_driver or "?",
            list=" ".join(image.arch_list) or "?",
        ),
    ]
    if data["image"]["variants"]:
        lines.append(_("  CUDA variants: {list}").format(list=" ".join(f"-{v}" for v in data["image"]["variants"])))
    lines.append(_("  other images: {list}").format(list=", ".join(list(data["images"].values())[1:]) or "-"))
    for title, values in (
        (_("quantization"), release.quantization),
        (_("KV cache types"), release.kv_cache_dtypes),
        (_("tool-call parsers"), release.tool_parsers),
        (_("reasoning parsers"), release.reasoning_parsers),
    ):
        lines.append("  " + labelled(title, " ".join(values) or "-"))
    count = len(release.architectures)
    lines.append(
        "  "
        + listed(
            (
                ngettext("{n} model architecture", "{n} model architectures", count).format(n=count),
                ngettext("{n} environment variable", "{n} environment variables", len(release.env)).format(n=len(release.env)),
            )
        )
    )
    lines += ["", _("Options of vllm serve:")]
    print("\n".join(lines))
    for option in release.options:
        print("  " + describe_option(option))


def describe_option(option: Option) -> str:
    """One line: spellings, values, default."""
    text = ", ".join(option.flags)
    if option.choices and option.kind != "flag":
        text += " {" + ",".join(option.choices) + "}"
    elif option.kind != "flag":
        text += f" <{option.kind}>"
    if option.default not in (None, [], {}, ""):
        text = bracketed(text, _("default {default}").format(default=json.dumps(option.default)))
    return text + (_(" [deprecated]") if option.deprecated else "")


def _show_flag(release: Release, flag: str, as_json: bool) -> int:
    from . import find_option, flag_spans
    from .help import help_for

    if not flag.startswith("-"):
        flag = "--" + flag.replace("_", "-")
    option, how = find_option(release, flag)
    spans = flag_spans(option.flag if option is not None else flag)
    if as_json:
        _print_json(
            {
                "version": release.version,
                "flag": flag,
                "how": how,
                "option": None if option is None else _option_json(option),
                "releases": [list(s) for s in spans],
            }
        )
        return 0 if option is not None else 1
    if option is None:
        if how == "ambiguous":
            print(_("{flag} could be several options of {release}.").format(release=release.version, flag=flag))
        else:
            print(_("{release} has no option {flag}.").format(release=release.version, flag=flag))
    else:
        print(describe_option(option))
        words = help_for(option.dest)
        if words is not None:
            print("  " + words.meaning)
            print("  " + _("memory: {effect}").format(effect=words.memory))
    for first, last in spans:
        print(_("  in {first} to {last}").format(first=first, last=last))
    return 0 if option is not None else 1


# --- update, probe ---------------------------------------------------------------------------------------------


def _update(words: list[str], as_json: bool) -> int:
    from . import forget_cached, version_key, versions
    from .build import build_release, write_user_release
    from .sources import project_files, released_versions

    available = released_versions(project_files())
    if words:
        missing = [w for w in words if w not in available]
        if missing:
            raise BadInput(_("Not on the package index: {versions}").format(versions=", ".join(missing)))
        wanted = words
    else:
        known = versions()
        wanted = [v for v in available if version_key(v) > version_key(known[0]) and v not in known]
    done: list[str] = []
    failed: dict[str, str] = {}
    for version in sorted(wanted, key=version_key):
        try:
            write_user_release(build_release(version, available[version], None))
            done.append(version)
        except WizardError as error:
            failed[version] = str(error)
    forget_cached()
    if as_json:
        _print_json({"updated": done, "failed": failed, "known": list(versions())})
    else:
        for version in done:
            print(_("{version}: read and kept").format(version=version))
        for problem in failed.values():
            print(problem, file=sys.stderr)
        if not wanted:
            print(_("Nothing newer than {version} on the package index.").format(version=versions()[-1]))
    return 1 if failed else 0


def _probe(args: argparse.Namespace, words: list[str], as_json: bool) -> int:
    from wizard.host import open_host

    from . import forget_cached
    from .build import write_user_release
    from .probe import probe_image, probe_python

    host = open_host(getattr(args, "machine", None))
    target = words[0] if words else None
    image = args.image or (target if target and ("/" in target and ":" in target) else None)
    python = args.python or (target if target and image is None else None)
    if image:
        data = probe_image(host, image)
    else:
        found = python or host.which("python3") or host.which("python")
        if not found:
            raise WizardError(_("No Python was found; name one with --python."))
        data = probe_python(host, found)
    path = write_user_release(data)
    forget_cached()
    if as_json:
        _print_json({"version": data["version"], "options": len(data["options"]), "notes": data["notes"], "file": str(path)})
        return 0
    print(
        _("vLLM {version}: {count} options read; use it as --release {version}").format(
            version=data["version"], count=len(data["options"])
        )
    )
    for note in data["notes"]:
        print("  " + note, file=sys.stderr)
    return 0
