"""How fast is the mover, measured beside what one would do by hand, in one run.

    python benchmarks/move.py                       # both data sets, throttled and not; needs root for the throttle
    python benchmarks/move.py --gb 1 --runs 1 --json

The contenders copy the same source to the same disk, one after the other. The caches are dropped before each,
and then its program is started once on a folder with one small file: the source is cold, the programs are not.

* ``cp -r`` then ``sync``: the limit. It proves nothing.
* ``vllm-wizard move``: hashed on the way, flushed, read back from the disk, compared; start-up included. It runs
  from a copy of the package with its bytecode compiled, as pip leaves it behind.
* ``cp -r`` then ``sha256sum`` of the copy (from the page cache; it does not even compare with the source).
* ``rsync -a --checksum``, where rsync is installed.

How the source is slowed down: it is a file system of its own on a loop device, whose image lies in memory or
wherever ``--image-dir`` says, and the kernel limits the reads of that one device (blkio.throttle.read_bps_device
in cgroup v1, io.max in v2) for the process that runs the contender. All programs are unchanged and all reads are
limited in the same way, whoever makes them; reads and writes of the destination's disk are not limited. The
device reads ahead by 8 MiB, so that the limit's rate and not its grain is what programs meet. "Of the rate" is
what the limit alone would take, divided by the time taken. "Of cp + sync" is the median of the quotients within
each round: rounds are minutes apart, and a machine that others use too is never twice the same.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MB = 1_000_000


@dataclass
class Row:
    data: str
    source: str
    contender: str
    seconds: float  # median of the runs
    all_seconds: list[float]
    cpu_seconds: float  # median; of the program and its helpers, not of the kernel's own threads
    rate_mb_per_s: float
    of_limit: float  # the time of cp and sync divided by this one's in the same round, median: 1.0 is as fast
    of_rate: float | None  # what the throttle alone would take, divided by this one's time
    peak_rss_mb: float | None = None


def make_shards(folder: Path, total_bytes: int, count: int) -> None:
    """Shards in the safetensors form: one tensor of random bytes each."""
    folder.mkdir(parents=True)
    size = total_bytes // count
    block = os.urandom(8 * MB)
    for n in range(count):
        header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        with (folder / f"model-{n + 1:05d}-of-{count:05d}.safetensors").open("wb") as handle:
            handle.write(len(header).to_bytes(8, "little") + header)
            left = size
            while left:
                # Another beginning in each block: no two are equal.
                piece = (os.urandom(64) + block)[: min(left, len(block))]
                handle.write(piece)
                left -= len(piece)
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')


def make_small(folder: Path, count: int) -> None:
    """Small files of 4 to 128 KiB, in 50 folders."""
    dice = random.Random(7)
    for n in range(count):
        where = folder / f"part-{n % 50:02d}"
        where.mkdir(parents=True, exist_ok=True)
        (where / f"file-{n:05d}.json").write_bytes(os.urandom(dice.randint(4096, 131072)))
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')


# --- the source's device and its limit


@contextlib.contextmanager
def loop_device(image_dir: Path, size_bytes: int) -> Iterator[tuple[Path, str]]:
    """A fresh file system on a loop device: where it is mounted, and its device number."""
    with tempfile.TemporaryDirectory(dir=image_dir, prefix="move-bench-") as scratch:
        image, mount = Path(scratch) / "image", Path(scratch) / "mount"
        mount.mkdir()
        with image.open("wb") as handle:
            handle.truncate(size_bytes)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
        try:
            device = os.stat(mount).st_dev
            # Generous read-ahead: with the usual 128 KiB the limit's own grain, not its rate, would hold up
            # programs that read one small piece after the other.
            name = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/read_ahead_kb"
            Path(name).write_text("8192")
            yield mount, f"{os.major(device)}:{os.minor(device)}"
        finally:
            subprocess.run(["umount", str(mount)], check=True)


class Throttle:
    """A control group whose members read one device at a limited rate."""

    def __init__(self, device: str, bytes_per_s: int) -> None:
        name = f"move-bench-{os.getpid()}"
        v1 = Path("/sys/fs/cgroup/blkio")
        v2 = Path("/sys/fs/cgroup")
        if (v1 / "blkio.throttle.read_bps_device").exists():
            self.folder = v1 / name
            self.folder.mkdir()
            (self.folder / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_s}")
        elif (v2 / "cgroup.subtree_control").exists():
            with contextlib.suppress(OSError):
                (v2 / "cgroup.subtree_control").write_text("+io")
            self.folder = v2 / name
            self.folder.mkdir()
            (self.folder / "io.max").write_text(f"{device} rbps={bytes_per_s}")
        else:
            raise OSError("no cgroup with an I/O limit here")

    def join(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.folder.rmdir()


# --- the contenders


def install(folder: Path) -> dict[str, str]:
    """A copy of the package as pip would leave it, bytecode compiled; the environment that runs it."""
    shutil.copytree(ROOT / "wizard", folder / "wizard", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    compileall.compile_dir(folder, quiet=2)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPATH": str(folder)}


def contenders(src: Path, dst: Path) -> dict[str, list[str]]:
    def shell(text: str) -> list[str]:
        return ["sh", "-c", text, "sh", str(src), str(dst)]

    found = {
        "cp -r; sync": shell('cp -r "$1" "$2" && sync'),
        "vllm-wizard move": [sys.executable, "-m", "wizard", "move", str(src), str(dst), "--yes"],
        "cp -r && sha256sum": shell('cp -r "$1" "$2" && find "$2" -type f -exec sha256sum {} + > /dev/null'),
    }
    if shutil.which("rsync"):
        found["rsync -a --checksum"] = shell('rsync -a --checksum "$1/" "$2"')
    return found


class Measured(NamedTuple):
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float


def run_once(name: str, src: Path, work: Path, environment: dict[str, str], join: Callable[[], None] | None) -> Measured:
    """One contender, from a cold source."""
    subprocess.run(["sync"], check=True)
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")
    tiny = work / "tiny"
    tiny.mkdir()
    (tiny / "config.json").write_text("{}")
    start(contenders(tiny, work / "tiny-copy")[name], environment, None)
    subprocess.run(["sync"], check=True)
    return start(contenders(src, work / "copy")[name], environment, join)


def start(command: list[str], environment: dict[str, str], join: Callable[[], None] | None) -> Measured:
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd="/", env=environment, stdout=subprocess.DEVNULL, preexec_fn=join)
    _pid, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB)


def compare(
    data: str,
    source: str,
    src: Path,
    work: Path,
    runs: int,
    environment: dict[str, str],
    prepare: Callable[[], None],
    bytes_per_s: int,
) -> list[Row]:
    size = sum(p.stat().st_size for p in src.rglob("*") if p.is_file())
    measured: dict[str, list[Measured]] = {}
    for n in range(runs):
        names = list(contenders(src, work))
        # Turn the order round: whoever comes after another finds the disk in another state.
        for place, name in enumerate(names if n % 2 == 0 else names[::-1]):
            # A fresh name each time, cleared away later: ext4 looks through every inode that was freed in the
            # last seconds before it takes one, and whoever copies right after a deletion would pay for it.
            dst = work / f"run-{n}-{place}"
            dst.mkdir()
            found = run_once(name, src, dst, environment, prepare)
            measured.setdefault(name, []).append(found)
            print(f"  {data}, {source}: {name}: {found.seconds:.2f} s, CPU {found.cpu_seconds:.2f} s", file=sys.stderr)
            if size > 1_000 * MB:
                shutil.rmtree(dst)  # few inodes, much room
    limit = [m.seconds for m in measured["cp -r; sync"]]
    rows = []
    for name, found_all in measured.items():
        seconds = statistics.median(m.seconds for m in found_all)
        rows.append(
            Row(
                data,
                source,
                name,
                round(seconds, 2),
                [round(m.seconds, 2) for m in found_all],
                round(statistics.median(m.cpu_seconds for m in found_all), 2),
                round(size / seconds / MB, 1),
                round(statistics.median(a / m.seconds for a, m in zip(limit, found_all, strict=True)), 3),
                round(size / bytes_per_s / seconds, 3) if bytes_per_s else None,
                round(max(m.peak_rss_mb for m in found_all), 1) if name.startswith("vllm") else None,
            )
        )
    return rows


def table(rows: list[Row]) -> str:
    lines = ["| data | source | contender | seconds | CPU s | MB/s | of cp + sync | of the rate |", "|---|---|---|---:|---:|---:|---:|---:|"]
    for r in rows:
        of_rate = f"{r.of_rate:.2f}" if r.of_rate is not None else ""
        lines.append(
            f"| {r.data} | {r.source} | `{r.contender}` | {r.seconds:.2f} | {r.cpu_seconds:.2f} | {r.rate_mb_per_s:.0f} | {r.of_limit:.2f} | {of_rate} |"
        )
    peak = max((r.peak_rss_mb or 0.0) for r in rows)
    return "\n".join([*lines, "", f"Peak memory of the mover: {peak:.0f} MB."])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=4.0, help="size of the eight shards (default 4)")
    parser.add_argument("--small", type=int, default=5000, help="number of small files (default 5000)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender; the median counts")
    parser.add_argument("--mb-per-s", type=int, default=250, help="limit of the throttled source (default 250)")
    parser.add_argument("--image-dir", type=Path, default=Path("/dev/shm"), help="where the source's image lies")
    parser.add_argument("--work-dir", type=Path, default=Path.home(), help="the disk that is copied to")
    parser.add_argument("--only", choices=("shards", "small"), help="one data set only")
    parser.add_argument("--source", choices=("throttled", "unthrottled"), help="one kind of source only")
    parser.add_argument(
        "--first", action="store_true", help="run every contender before all other programs (nice -20), on a busy machine"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("This needs root: a loop device, cold caches and the kernel's read limit.", file=sys.stderr)
        return 1
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"The load is {load:.1f}: other programs are at work, and the figures will tell of them too.", file=sys.stderr)
    total = int(args.gb * 1e9)
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(dir=args.work_dir, prefix="move-bench-") as work,
        loop_device(args.image_dir, int(total * 1.05) + args.small * 75_000 + 300 * MB) as (mount, device),
    ):
        environment = install(Path(work) / "installed")
        environment["XDG_STATE_HOME"] = str(Path(work) / "state")
        sources: dict[str, Path] = {}
        if args.only != "small":
            make_shards(mount / "shards", total, 8)
            sources[f"{args.gb:g} GB in 8 shards"] = mount / "shards"
        if args.only != "shards":
            make_small(mount / "small", args.small)
            sources[f"{args.small} small files"] = mount / "small"
        for kind in [args.source] if args.source else ["throttled", "unthrottled"]:
            throttle = Throttle(device, args.mb_per_s * MB) if kind == "throttled" else None

            def prepare(limit: Throttle | None = throttle) -> None:
                if limit is not None:
                    limit.join()
                if args.first:
                    os.nice(-20)

            label = f"{args.mb_per_s} MB/s" if throttle else "unthrottled"
            try:
                for data, src in sources.items():
                    where = Path(work) / f"{kind}-{src.name}"
                    where.mkdir()
                    limit = args.mb_per_s * MB if throttle else 0
                    rows += compare(data, label, src, where, args.runs, environment, prepare, limit)
            finally:
                if throttle:
                    throttle.close()
    if args.json:
        print(json.dumps([asdict(r) for r in rows], indent=1))
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    # Children are measured one by one; a limit on open files is the only thing they inherit from here.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
