"""Make the pictures of the walk from recorded machines: ``python -m screenshots.make [NAME ...]``.

Each scene drives the real application on a recorded machine to a step, then writes NAME.svg and NAME.png beside
this file. Nothing here is drawn by hand; ``--check`` says which pictures no longer match the application.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from screenshots import scenes_launch
from wizard import program
from wizard.i18n import set_language

HERE = Path(__file__).resolve().parent
MACHINES = HERE.parent / "tests" / "machines"
FONT = "DejaVu Sans Mono"
WIDE_FONT = "Noto Sans Mono CJK SC"  # Debian: fonts-noto-cjk
PASTED = """vllm serve ~/models/Qwen3-VL --port 8000 \\
  --gpu-memory-utilization 0.6 --max-model-len 8192 \\
  --disable-uvloop --single-process --disable-mm-warmup"""
LONG = (("max_model_len", 24576),)
ON_D = (("model", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8"),)
OUT_DIR = "/home/user/vllm"  # shown in the pictures; nothing is written

Act = Callable[[Any, Any], Awaitable[None]]  # (app, pilot)


@dataclass(frozen=True)
class Scene:
    """One picture: a machine, a size in cells, the step, and what is done there before it is taken."""

    name: str
    machine: str
    step: str = "machine"
    size: tuple[int, int] = (100, 30)
    theme: str = "wizard-dark"
    ascii_only: bool = False
    answers: tuple[tuple[str, Any], ...] = ()
    act: Act | None = None
    lang: str = "en"
    plain: bool = False  # the walk line by line, by Enter alone: its first rows


def keys(*names: str) -> Act:
    async def press(app: Any, pilot: Any) -> None:
        for name in names:
            await pilot.press(name)
            await pilot.pause()

    return press


async def filter_flags(app: Any, pilot: Any) -> None:
    """The table of single flags, filtered."""
    from textual.widgets import Input

    app.screen.query_one("#flag-filter", Input).focus()
    await pilot.press(*"cache")
    await pilot.press("enter")
    app.screen.query_one("#flag-about").scroll_visible(animate=False)
    await settle(app, pilot)


async def moving(app: Any, pilot: Any) -> None:
    """A move under way, with figures that do not depend on the clock."""
    from wizard.faces.tui.views import MoveView
    from wizard.models.move_types import Progress, Stage

    view = app.walk_screen.view
    if isinstance(view, MoveView):
        total = app.walk.plan.move.size_bytes or 16 * 1024**3
        view.progress = Progress(int(total * 0.62), total, 5, 11, 214 * 1024**2, total * 0.38 / (214 * 1024**2), Stage.COPY)
        view.state = "running"
        view.draw()


async def written(app: Any, pilot: Any) -> None:
    """The last step after writing; nothing is written for a picture."""
    from wizard.faces.tui.views import ReviewView

    view = app.walk_screen.view
    if isinstance(view, ReviewView):
        view.written = True
        app.walk_screen.show()
        await pilot.pause()
        app.walk_screen.show()


async def paste(app: Any, pilot: Any) -> None:
    """A command from an article, checked."""
    from textual.widgets import TextArea

    app.walk_screen.open_paste()
    await pilot.pause(0.3)
    app.screen.query_one(TextArea).text = PASTED
    await pilot.press("tab", "enter")
    await pilot.pause(0.3)


SCENES = (
    Scene("machine", "wsl2-rtx4090-desktop"),
    Scene("machine-problems", "wsl2-rtx5070-laptop-old-driver"),
    Scene("model", "wsl2-rtx3060-model-on-d", "model"),
    Scene("move", "wsl2-rtx3060-model-on-d", "move", answers=ON_D, act=moving),
    Scene("runtime", "wsl2-rtx4090-desktop", "runtime"),
    Scene("flags", "wsl2-rtx4090-desktop", "flags"),
    Scene("flags-single", "wsl2-rtx4090-desktop", "flags", act=filter_flags),
    Scene("wsl", "wsl2-rtx3060-model-on-d", "wsl", answers=ON_D),
    Scene("access", "wsl2-rtx4090-desktop", "access", answers=(("access", "network"),)),
    Scene("review", "wsl2-rtx3060-model-on-d", "review", answers=ON_D),
    Scene("diff", "wsl2-rtx3060-model-on-d", "review", answers=ON_D, act=keys("shift+tab", "shift+tab", "down", "down", "enter")),
    Scene("written", "wsl2-rtx3060-model-on-d", "review", answers=ON_D, act=written),
    Scene("plan", "wsl2-rtx4090-desktop", "flags", act=keys("f2")),
    Scene("help", "wsl2-rtx4090-desktop", "flags", act=keys("f1")),
    Scene("paste", "wsl2-rtx4090-desktop", "flags", act=paste),
    Scene("palette", "wsl2-rtx4090-desktop", "flags", act=keys("ctrl+p", "k", "v")),
    Scene("launch", "wsl2-rtx4090-desktop", size=(80, 24), act=scenes_launch.running),
    Scene("launch-wide", "wsl2-rtx4090-desktop", size=(120, 36), act=scenes_launch.running),
    Scene("launch-ready", "wsl2-rtx4090-desktop", size=(80, 24), act=scenes_launch.serving),
    Scene("launch-ready-wide", "wsl2-rtx4090-desktop", size=(120, 36), act=scenes_launch.serving),
    Scene("launch-stop", "wsl2-rtx4090-desktop", size=(80, 24), act=scenes_launch.stopping),
    Scene("launch-failed", "wsl2-rtx4090-desktop", size=(80, 24), answers=LONG, act=scenes_launch.failing),
    Scene("launch-failed-wide", "wsl2-rtx4090-desktop", size=(120, 36), answers=LONG, act=scenes_launch.failing),
    Scene("repair", "wsl2-rtx4090-desktop", size=(80, 24), answers=LONG, act=scenes_launch.repair_diff),
    Scene("launch-ascii", "wsl2-rtx4090-desktop", size=(80, 24), ascii_only=True, act=scenes_launch.running),
    Scene("log", "wsl2-rtx4090-desktop", size=(80, 24), act=scenes_launch.ask_for_log),
    Scene("diagnosis", "wsl2-rtx4090-desktop", size=(80, 24), answers=LONG, act=scenes_launch.diagnose),
    Scene("diagnosis-wide", "wsl2-rtx4090-desktop", size=(120, 36), answers=LONG, act=scenes_launch.diagnose),
    Scene("narrow", "wsl2-rtx4090-desktop", "model", size=(80, 24)),
    Scene("wide", "native-4x-h200", "flags", size=(160, 50)),
    Scene("light", "wsl2-rtx4090-desktop", "model", theme="wizard-light"),
    Scene("ascii", "wsl2-rtx4090-desktop", "model", size=(80, 24), ascii_only=True),
    Scene("plain", "wsl2-rtx3060-model-on-d", size=(84, 44), plain=True),
    Scene("chinese", "wsl2-rtx3060-model-on-d", "model", lang="zh_CN"),
    Scene("chinese-flags", "wsl2-rtx4090-desktop", "flags", size=(120, 36), lang="zh_CN"),
    Scene("chinese-failed", "wsl2-rtx4090-desktop", size=(80, 24), answers=LONG, act=scenes_launch.failing, lang="zh_CN"),
)


async def settle(app: Any, pilot: Any, timeout_s: float = 30.0) -> None:
    """Wait until nothing is under way: probes, models, timers, drawing."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while loop.time() < end:
        await pilot.pause(0.05)
        busy = [w for w in app.workers if not w.is_finished]
        wizard = app.wizard
        if wizard is None or wizard.walk.plan is None or wizard.models_looking or busy:
            continue
        if not wizard.walk_screen.unsettled and not wizard.walk_screen.files_due:
            break
    await pilot.pause(0.5)
    while [w for w in app.workers if not w.is_finished] and loop.time() < end:
        await pilot.pause(0.05)
    await pilot.pause()


def make_app(scene: Scene) -> Any:
    """The application on the scene's machine, as a user would start it there."""
    from wizard.faces.tui.app import Start, WizardApp
    from wizard.host import open_host
    from wizard.session import Answers

    start = Start(open_host(MACHINES / scene.machine), Answers(user=dict(scene.answers)), out_dir=OUT_DIR)
    return WizardApp(lambda: start, theme=scene.theme, ascii_only=scene.ascii_only, ahead=False)


async def play(scene: Scene, app: Any, pilot: Any) -> None:
    """Bring the application to what the scene shows."""
    await settle(app, pilot)
    steady_times(app)
    if scene.step != "machine":
        for step in app.walk.steps():
            if step.id == scene.step:
                break
            app.walk.visited.add(step.id)
        app.walk_screen.go_to(scene.step)
        await settle(app, pilot)
    if scene.act is not None:
        await scene.act(app, pilot)
        await pilot.pause(0.2)
    await pilot.pause()


def steady_times(app: Any) -> None:
    """Times differ from run to run; pictures do not show them."""
    from dataclasses import replace

    view = app.walk_screen.views["machine"]
    for line in view.probes.values():
        if line.run is not None:
            line.run = replace(line.run, seconds=0.0)
    app.walk_screen.show()


async def svg_of(scene: Scene) -> str:
    set_language(scene.lang)
    if scene.plain:
        return steady_ids(plain_svg(scene))
    app = make_app(scene)
    async with app.run_test(size=scene.size) as pilot:
        await play(scene, app, pilot)
        return steady_ids(app.export_screenshot(title=f"vllm-wizard: {scene.name}"))


def in_one_order(lines: list[str]) -> list[str]:
    """Probes are told as they answer, each time in another order: the picture shows them sorted."""
    start = next(i for i, line in enumerate(lines) if line.endswith("...")) + 1
    end = lines.index("", start)
    told: list[list[str]] = []
    for line in lines[start:end]:
        if line.startswith("    ") and told:
            told[-1].append(line)  # what follows of the probe above
        else:
            told.append([line])
    return [*lines[:start], *(line for each in sorted(told) for line in each), *lines[end:]]


def plain_svg(scene: Scene) -> str:
    """What ``--plain`` prints while every question is answered with Enter, as far as the picture reaches."""
    from rich.console import Console
    from rich.text import Text

    width, height = scene.size
    with tempfile.TemporaryDirectory() as kept:
        done = subprocess.run(
            [sys.executable, "-m", "wizard", "--plain", "--machine", str(MACHINES / scene.machine)],
            input="\n" * 60,
            capture_output=True,
            text=True,
            cwd=kept,
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "VLLM_WIZARD_CONFIG_DIR": kept, "COLUMNS": str(width), "LANG": "C.UTF-8"},
            timeout=120,
        )
    # The folder of this run is made up, and so is another one in each run.
    lines = in_one_order(done.stdout.replace(kept, OUT_DIR).splitlines())[:height]
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text(line), overflow="crop", no_wrap=True)
    return console.export_svg(title=f"vllm-wizard --plain: {scene.name}", theme=None)


def steady_ids(svg: str) -> str:
    """Rich puts a random number into class names: the same picture shall give the same bytes."""
    found = re.search(r"terminal-(\d+)", svg)
    return keep_columns(svg.replace(found[0], "terminal-wizard") if found else svg)


_TEXT = re.compile(r'<text (?P<before>[^>]*?)x="(?P<x>[\d.]+)"(?P<between>[^>]*?)textLength="(?P<length>[\d.]+)"(?P<after>[^>]*)>(?P<text>[^<]*)</text>')


def keep_columns(svg: str) -> str:
    """Wide characters take two cells: the export counts one for each, and squeezes them.

    Each run of wide or of narrow characters becomes a text of its own, at its own column.
    """

    def again(match: re.Match[str]) -> str:
        words = html.unescape(match["text"])
        if all(cell_len(c) < 2 for c in words):
            return match[0]
        cell = float(match["length"]) / len(words)
        x, made = float(match["x"]), []
        for _wide, run in itertools.groupby(words, key=lambda c: cell_len(c) == 2):
            part = "".join(run)
            width = cell * cell_len(part)
            shown = html.escape(part, quote=False).replace(" ", "&#160;")
            made.append(f'<text {match["before"]}x="{x:g}"{match["between"]}textLength="{width:g}"{match["after"]}>{shown}</text>')
            x += width
        return "".join(made)

    return _TEXT.sub(again, svg)


def png_of(svg: str) -> bytes:
    """The picture as PNG, in a font that keeps the columns."""
    import resvg_py

    text = re.sub(r"@font-face\s*{[^}]*}", "", svg)
    text = text.replace("Fira Code", FONT).replace("font-family: arial", f"font-family: {FONT}")
    # The first font of a list is taken for the whole text, or any font that has the characters: name it for each.
    text = re.sub(
        r"<text (?=[^>]*>[^<]*[\u2e80-\uffef])", f'<text style="font-family: {WIDE_FONT}; font-size: 24px" ', text
    )
    made = resvg_py.svg_to_bytes(svg_string=text, zoom=1, font_family=FONT, monospace_family=FONT)
    return bytes(made)


def lacking_font(svg: str) -> str | None:
    """A font that the picture needs and that is not here: its characters would be left out without a word."""
    needed = [FONT, *([WIDE_FONT] if re.search("[\u2e80-\uffef]", svg) else [])]
    listing = shutil.which("fc-list")
    if listing is None:
        return None
    families = subprocess.run([listing, ":", "family"], capture_output=True, text=True, check=False).stdout
    return next((f for f in needed if f not in families), None)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these scenes")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a picture differs")
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(argv)
    # The same pictures, however this was started.
    program.words = lambda: (program.NAME,)  # type: ignore[assignment]
    os.environ.pop("NO_COLOR", None)
    unknown = set(args.names) - {s.name for s in SCENES}
    if unknown:
        parser.error(f"no scene is called {', '.join(sorted(unknown))}")
    stale = 0
    for scene in SCENES:
        if args.names and scene.name not in args.names:
            continue
        if not (MACHINES / scene.machine).is_dir():
            print(f"{scene.name}: no recorded machine {scene.machine}", file=sys.stderr)
            stale += 1
            continue
        svg = asyncio.run(svg_of(scene))
        path = args.out / f"{scene.name}.svg"
        if args.check:
            if not path.exists() or path.read_text(encoding="utf-8") != svg:
                print(f"{scene.name}: differs")
                stale += 1
            continue
        args.out.mkdir(parents=True, exist_ok=True)
        path.write_text(svg, encoding="utf-8")
        lacking = lacking_font(svg)
        if lacking is not None:
            print(f"{scene.name}.png is left as it was: the font {lacking} is not installed", file=sys.stderr)
            stale += 1
            continue
        path.with_suffix(".png").write_bytes(png_of(svg))
        print(path.with_suffix(".png").name)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
