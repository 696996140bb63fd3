"""Compare what the catalogue says of a release with what its real parser says (see real_parser.py)."""

from __future__ import annotations

from typing import Any

from wizard.releases.types import Option, Release


def differences(release: Release, real: list[dict[str, Any]]) -> list[str]:
    """One line for every option on which the two disagree: names, destination, kind, number of values, choices."""
    ours = {flag: option for option in release.options for flag in option.flags}
    theirs = {flag: option for option in real for flag in option["flags"]}
    found = [f"{flag}: only in the real parser" for flag in sorted(theirs.keys() - ours.keys())]
    found += [f"{flag}: only in the catalogue" for flag in sorted(ours.keys() - theirs.keys())]
    for real_option in real:
        option = next((ours[f] for f in real_option["flags"] if f in ours), None)
        if option is not None:
            found += [f"{option.flag}: {text}" for text in _differ(option, real_option)]
    return found


def _differ(option: Option, real: dict[str, Any]) -> list[str]:
    found = []
    if set(option.flags) != set(real["flags"]):
        found.append(f"spellings {sorted(option.flags)} but really {sorted(real['flags'])}")
    if option.dest != real["dest"]:
        found.append(f"destination {option.dest} but really {real['dest']}")
    is_flag = option.kind == "flag"
    if is_flag != (real["nargs"] == 0):
        found.append(f"kind {option.kind} but really {real['action']} with nargs {real['nargs']}")
    elif not is_flag and option.nargs != (None if real["nargs"] is None else str(real["nargs"])):
        found.append(f"nargs {option.nargs} but really {real['nargs']}")
    if not option.computed_choices:
        ours = None if option.choices is None else set(option.choices)
        theirs = None if real["choices"] is None else {str(c) for c in real["choices"]}
        if ours != theirs and not is_flag:
            found.append(f"choices {sorted(ours or ())} but really {sorted(theirs or ())}")
    kind = _kind_by_type(real)
    if not is_flag and kind is not None and option.value_type != kind:
        found.append(f"values read as {option.value_type} but really {kind}")
    return found


def _kind_by_type(real: dict[str, Any]) -> str | None:
    """Types that can be told by name; closures (optional_type and the like) hide theirs."""
    name = real["type"]
    return {
        None: "str", "str": "str", "int": "int", "float": "float", "loads": "json",
        "human_readable_int": "human_int", "human_readable_int_or_auto": "human_int",
        "union_dict_and_str": "json_or_str", "nullable_kvs": "key_values",
    }.get(name)  # fmt: skip
