"""``python -m wizard.recipes.compile [FOLDER]``: write the compiled form beside the recipe files."""

from __future__ import annotations

import sys
from pathlib import Path

from wizard.recipes.book import COMPILED_NAME, compile_folder


def main(argv: list[str]) -> int:
    """Compile the recipes of ``FOLDER`` (the top-level ``recipes`` without one)."""
    folder = Path(argv[0]) if argv else Path(__file__).resolve().parents[2] / "recipes"
    try:
        text = compile_folder(folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    (folder / COMPILED_NAME).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
