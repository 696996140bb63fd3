"""``python docs/reference.py``: the pages in ``docs/reference``, made from the tables of the program.

They are kept in the repository, so that links to them lead somewhere in a checkout as well; a test tells when they are
stale. ``python -m wizard.faces.manual`` writes them together with the manual page.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "wizard"
FOLDER = Path(__file__).resolve().parent / "reference"


def write() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        FOLDER.joinpath(f"{name}.md").write_text(text, encoding="utf-8", newline="\n")


def pages() -> dict[str, str]:
    """Name -> Markdown of every page."""
    from wizard.i18n import set_language

    set_language("en")
    made = {
        "commands": commands(),
        "answers": answers(),
        "files": _topic("files", "Files"),
        "exit-codes": _topic("exit-codes", "Exit codes"),
        "environment": _topic("environment", "Environment variables"),
        "notices": notices(),
        "diagnosis": diagnosis(),
    }
    return {name: text.strip() + "\n" for name, text in made.items()}


def commands() -> str:
    from wizard import options
    from wizard.faces.help_topics import COMMAND_TEXTS
    from wizard.faces.manual import _metavar, own_actions

    out = ["# Commands", "", "Options may stand before or after the command. `vllm-wizard help COMMAND` shows the same in the terminal.", ""]
    general = [options.PLAIN_OPTION, *options.GENERAL, options.JSON_OPTION, options.OUT_OPTION, *options.ANSWERS]
    out += ["## Options of all commands", ""]
    out += _table(("option", "what it does"), ((f"`{n}{' ' + m if m else ''}`", t) for n, m, t in general))
    out += ["", "The last ones, from `--out` on, belong to the walk, `plan` and `generate`.", ""]
    for name, text, _where in options.COMMANDS:
        out += [f"## {name}", "", COMMAND_TEXTS.get(name) or text, ""]
        rows = []
        for action in own_actions(name):
            metavar = _metavar(action)
            words = ", ".join(f"`{o}`" for o in action.option_strings)
            rows.append((f"{words} {f'`{metavar}`' if metavar else ''}".strip(), action.help or ""))
        out += _table(("option or word", "what it does"), rows) if rows else []
        examples = options._EXAMPLES.get(name, ())
        if examples:
            out += ["", "```sh", *(f"vllm-wizard {name} {e}".rstrip() for e in examples), "```"]
        out.append("")
    return "\n".join(out)


def answers() -> str:
    from wizard.steps import STEPS

    out = [
        "# Answers and decisions",
        "",
        "Every question has a key. `--set KEY=VALUE` answers it, and an answers file holds it below `[answers]`. What is not answered is decided "
        "from the machine, the model and the recipe; `vllm-wizard plan` shows each decision under the same key, with its value, its reason and "
        "where it comes from (command line, answers file, recipe, detected, default).",
        "",
        "Besides these, the name of any option of the chosen vLLM release is a key (`--set max_num_batched_tokens=4096`), and `env.NAME` sets an "
        "environment variable of the server.",
        "",
    ]
    for step in STEPS:
        if step.questions:
            out += [f"## {step.title}", "", step.intro, ""]
            rows = (
                (f"`{q.key}`", "secret" if q.secret else q.kind + (f", {q.unit}" if q.unit else ""), f"**{q.label}** {q.help}")
                for q in step.questions
            )
            out += [*_table(("key", "kind", "meaning"), rows), ""]
    return "\n".join(out)


def _topic(name: str, title: str) -> str:
    from wizard.faces.help_topics import TOPICS

    out, kept = [f"# {title}", ""], False
    for line in TOPICS[name][1].split("\n"):
        if line.startswith("  ") != kept:
            kept = not kept
            out += ["", "```text"] if kept else ["```", ""]
        out.append(line[2:] if kept else line)
    return "\n".join([*out, "```"] if kept else out) + "\n"


def diagnosis() -> str:
    lines = PACKAGE.joinpath("diagnose", "rules", "compiled.jsonl").read_text("utf-8").splitlines()[1:]
    by_class: dict[str, list[tuple[str, str]]] = {}
    for rule in map(json.loads, lines):
        by_class.setdefault(rule["class"], []).append((rule["title"], rule["explanation"]))
    out = [
        "# Diagnosis",
        "",
        f"The {len(by_class)} causes that the rules of `vllm-wizard diagnose` name; `cause` in `--json` is one of them, or one that a check found more exactly.",
        "",
    ]
    for name, texts in sorted(by_class.items()):
        out += [f"## {name}", ""]
        for title, explanation in dict.fromkeys(texts):
            out += [f"**{_escaped(title)}.** {_escaped(explanation)}", ""]
    return "\n".join(out)


def notices() -> str:
    """Problems of machines, warnings and blockers of plans: their codes, as JSON holds them."""
    out = [
        "# Problems and warnings",
        "",
        "What `detect` and `plan` tell has a code, which stands in brackets or under `code` in `--json`.",
        "",
        "## Problems of a machine",
        "",
        *_table(("code", "title"), sorted(_codes([*PACKAGE.joinpath("probes").rglob("*.py")], "Problem"))),
        "",
        "## Warnings and blockers of a plan",
        "",
        *_table(("code", "title"), sorted(_codes([*PACKAGE.joinpath("plan").rglob("*.py")], "warn", "block"))),
        "",
    ]
    return "\n".join(out)


def _codes(paths: Iterable[Path], *names: str) -> Iterator[tuple[str, str]]:
    """(code, title) of every call of ``names`` whose first argument is a code."""
    found: dict[str, str] = {}
    for path in sorted(paths):
        tree = ast.parse(path.read_text("utf-8"))
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            texts = {
                target.id: _literal(node.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call) and n.args):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""
                code = call.args[0]
                if name in names and isinstance(code, ast.Constant) and isinstance(code.value, str):
                    titles = (texts.get(a.id, "") if isinstance(a, ast.Name) else _literal(a) for a in call.args[1:])
                    found[code.value] = found.get(code.value) or next(filter(None, titles), "")
    yield from ((f"`{code}`", title) for code, title in found.items())


def _literal(node: ast.expr) -> str:
    """The text in ``_("...")`` or ``_("...").format(...)``; else nothing."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "_" and inner.args:
            first = inner.args[0]
            return str(first.value) if isinstance(first, ast.Constant) else ""
    return ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


def _escaped(text: str) -> str:
    """Without what Markdown would take for a tag."""
    return " ".join(text.split()).replace("<", "&lt;")


if __name__ == "__main__":
    write()
