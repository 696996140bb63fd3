"""Completion scripts for bash, zsh and fish, made from the very parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from wizard.i18n import LANGUAGES, SOURCE, _

SHELLS = ("bash", "zsh", "fish")
# What a value is, where the shell can complete it by itself.
_FOLDERS = frozenset({"DIR", "SRC", "DST"})
_FILES = frozenset({"FILE", "LOG", "FILE | KEY=VALUE"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help=_("the shell that the script is for"))
    parser.epilog = "\n".join(
        [
            _("examples:"),
            '  eval "$(vllm-wizard completion bash)"     # in ~/.bashrc',
            '  eval "$(vllm-wizard completion zsh)"      # in ~/.zshrc, after compinit',
            "  vllm-wizard completion fish > ~/.config/fish/completions/vllm-wizard.fish",
        ]
    )


def run(args: argparse.Namespace) -> int:
    scripts: dict[str, Callable[[dict[str, list[Row]]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    print(scripts[args.shell](_tables()), end="")
    return 0


class Row:
    """One option or argument: its spellings (none for an argument), its help, and what completes its value."""

    def __init__(self, action: argparse.Action) -> None:
        self.spellings = tuple(action.option_strings)
        self.help = " ".join((action.help or "").split())
        self.takes_value = action.nargs != 0
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        self.values: tuple[str, ...] = tuple(str(c) for c in action.choices or ())
        self.kind = "dir" if metavar in _FOLDERS else "file" if metavar in _FILES else ""
        if "--lang" in self.spellings:
            self.values = (SOURCE, *LANGUAGES)
        if "--release" in self.spellings:
            from wizard.releases import versions

            self.values = tuple(versions())
        if metavar == "TOPIC":
            from wizard.faces.help_topics import TOPICS
            from wizard.options import COMMANDS

            self.values = (*(name for name, _help, _where in COMMANDS), *TOPICS)
        if "--set" in self.spellings:
            from wizard.steps import QUESTIONS

            self.values = tuple(f"{k}=" for k, q in sorted(QUESTIONS.items()) if not q.secret)
        self.no_space = "--set" in self.spellings


def _tables() -> dict[str, list[Row]]:
    """The rows of every subcommand; ``""`` is the walk. A room that is not there is left out."""
    from wizard.options import COMMANDS, build_parser

    tables: dict[str, list[Row]] = {}
    for name in ("", *(n for n, _help, _where in COMMANDS)):
        try:
            parser = build_parser(name or None)
        except ImportError:
            continue
        tables[name] = [Row(a) for a in parser._actions if a.help is not argparse.SUPPRESS]
    return tables


def _words(rows: list[Row]) -> list[str]:
    return sorted(
        {s for r in rows for s in r.spellings} | {v for r in rows if not r.spellings for v in r.values}
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _bash(tables: dict[str, list[Row]]) -> str:
    commands = [n for n in tables if n]
    values: dict[str, Row] = {
        s: r for rows in tables.values() for r in rows for s in r.spellings if r.takes_value
    }
    lines = [
        "# vllm-wizard: completion for bash",
        "_vllm_wizard() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' word",
        "  COMPREPLY=()",
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'    case "$word" in {"|".join(commands)}) command=$word; break ;; esac',
        "  done",
        '  case "$prev" in',
    ]
    for spelling, row in sorted(values.items()):
        if row.kind:
            flag = "-d" if row.kind == "dir" else "-f"
            lines.append(
                f'    {spelling}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen {flag} -- "$cur"); return ;;'
            )
        elif row.values:
            space = " compopt -o nospace 2>/dev/null;" if row.no_space else ""
            lines.append(
                f'    {spelling}){space} mapfile -t COMPREPLY < <(compgen -W {_quoted(" ".join(row.values))} -- "$cur"); return ;;'
            )
        else:
            lines.append(f"    {spelling}) return ;;")
    lines += ["  esac", "  local words='' files=''", '  case "$command" in']
    for name, rows in tables.items():
        words = " ".join(_words(rows) + ([] if name else commands))
        files = "; files=1" if any(r.kind for r in rows if not r.spellings) else ""
        lines.append(f"    {name or _quoted('')}) words={_quoted(words)}{files} ;;")
    lines += [
        "  esac",
        '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
        '  if [ -n "$files" ]; then',
        "    compopt -o filenames 2>/dev/null",
        '    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")',
        "  fi",
        "}",
        "complete -F _vllm_wizard vllm-wizard",
        "",
    ]
    return "\n".join(lines)


def _zsh_spec(row: Row) -> list[str]:
    text = row.help.replace("[", "(").replace("]", ")").replace(":", " -")
    specs = []
    for spelling in row.spellings:
        value = ""
        if row.takes_value:
            action = {"dir": "_files -/", "file": "_files"}.get(row.kind, "")
            if row.values:
                action = "(" + " ".join(v.replace("=", "\\=") for v in row.values) + ")"
            value = f":value:{action}"
        specs.append(_quoted(f"*{spelling}[{text}]{value}"))
    return specs


def _zsh(tables: dict[str, list[Row]]) -> str:
    from wizard.options import COMMANDS

    lines = [
        "#compdef vllm-wizard",
        "# vllm-wizard: completion for zsh",
        "_vllm_wizard() {",
        "  local command word",
        '  for word in "${(@)words[2,CURRENT-1]}"; do',
        f'    case "$word" in ({"|".join(n for n in tables if n)}) command=$word; break ;; esac',
        "  done",
        "  local -a commands",
        "  commands=(",
    ]
    lines += ["    " + _quoted(f"{n}:{_(help_)}") for n, help_, _where in COMMANDS if n in tables]
    lines += ["  )", '  case "$command" in']
    for name, rows in tables.items():
        specs = [s for r in rows for s in _zsh_spec(r)]
        if not name:
            specs.append(_quoted("*:command:{_describe command commands}"))
        else:
            specs.append(
                _quoted("*::" + "word:_files") if any(r.kind for r in rows if not r.spellings) else ""
            )
            words = " ".join(v for r in rows if not r.spellings for v in r.values)
            if words:
                specs[-1] = _quoted(f"*:word:({name} {words})")
        lines.append(f"    ({name or _quoted('')}) _arguments " + " ".join(s for s in specs if s) + " ;;")
    lines += [
        "  esac",
        "}",
        'if [ "$funcstack[1]" = "_vllm_wizard" ]; then _vllm_wizard "$@"; else compdef _vllm_wizard vllm-wizard; fi',
        "",
    ]
    return "\n".join(lines)


def _fish(tables: dict[str, list[Row]]) -> str:
    from wizard.options import COMMANDS

    names = " ".join(n for n in tables if n)
    lines = ["# vllm-wizard: completion for fish", "complete -c vllm-wizard -f"]
    none = f"not __fish_seen_subcommand_from {names}"
    for name, help_, _where in COMMANDS:
        if name in tables:
            lines.append(f"complete -c vllm-wizard -n {_quoted(none)} -a {name} -d {_quoted(_(help_))}")
    for name, rows in tables.items():
        when = _quoted(f"__fish_seen_subcommand_from {name}" if name else none)
        for row in rows:
            words = f" -a {_quoted(' '.join(row.values))}" if row.values else ""
            force = " -F" if row.kind else ""
            if not row.spellings:
                if words or force:
                    lines.append(f"complete -c vllm-wizard -n {when}{force}{words}")
                continue
            spelt = "".join(f" -l {s[2:]}" if s.startswith("--") else f" -s {s[1:]}" for s in row.spellings)
            value = " -r" if row.takes_value else ""
            lines.append(
                f"complete -c vllm-wizard -n {when}{spelt}{value}{force}{words} -d {_quoted(row.help)}"
            )
    return "\n".join(lines) + "\n"
