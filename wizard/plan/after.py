"""What to type next, in order, with what each step does."""

from __future__ import annotations

from wizard.i18n import _, sentences, stopped
from wizard.models.move_place import move_words
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import bash_line, bash_word, powershell_string
from wizard.outputs.wslconfig.deliver import hand_copy, shutdown_text
from wizard.plan.wsl import MEMORY, PROCESSORS, SWAP
from wizard.plan_types import Plan, Step
from wizard.program import words_on

RULE = "vLLM (vllm-wizard)"
MOVE_MODEL = "move_model"  # the key of the step that falls away when the model was copied in the walk
_SIZES = {MEMORY, SWAP, PROCESSORS}  # what WSL2 has of Windows; its other settings are no resources
COPY_WSLCONFIG = "copy_wslconfig"  # the key of the step that falls away when the file is written in place


def next_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps from written files to an answering server; none when there are blockers."""
    if plan.blockers or plan.release is None:
        return ()
    steps: list[Step] = []
    out = str(plan.value("out_dir"))
    if plan.move is not None and plan.move.wanted:
        steps.append(
            Step(
                _("Copy the model to the Linux file system"),
                (bash_line(move_words(plan.move.source, plan.move.destination, plan.machine.name)),),
                consequence=_("Every byte is verified; the original stays."),
                key=MOVE_MODEL,
            )
        )
    if plan.wsl_changes:
        copy = hand_copy(plan.machine, out)
        steps.append(
            Step(
                _("Put the proposed .wslconfig into your Windows profile"),
                (copy.line,),
                "powershell",
                copy.note,
                COPY_WSLCONFIG,
            )
        )
        steps.append(
            Step(
                _("Let WSL2 take its new resources") if _SIZES & set(plan.wsl_changes) else _("Let WSL2 take its new settings"),
                ("wsl --shutdown",),
                "powershell",
                shutdown_text(plan.machine),
            )
        )
    steps.append(
        Step(
            _("Start the server"),
            (bash_line(["cd", out]), "./launch.sh"),
            "linux-new" if plan.wsl_changes else "linux",
            consequence=_("Ready when it says “Application startup complete”."),
        )
    )
    steps.append(
        Step(
            _("Or let the wizard start it, watch it and prove that it answers"),
            (bash_line([*words_on(plan.machine.name), "launch", out]),),
        )
    )
    steps.append(Step(_("Try it"), (try_command(plan),), consequence=_where_to_try(plan)))
    if plan.value("access") == "network":
        steps += network_steps(plan)
    return tuple(steps)


def being_copied() -> Step:
    """In place of the step that copies the model, while that goes on."""
    return Step(
        _("The model is being copied: wait until that is done"),
        (),
        consequence=_("If the wizard is left before, it says how to go on copying."),
        key=MOVE_MODEL,
    )


def _where_to_try(plan: Plan) -> str:
    """Which terminal reaches the server."""
    if not plan.machine.in_container:
        return _("In a second terminal.")
    if plan.runtime == "docker":
        return _("On the machine that the Docker engine runs on: the port is published there, not in this container.")
    if plan.value("access") == "network":
        return _("In a second terminal of this container (docker exec).")
    return sentences(
        _("In a second terminal of this container (docker exec)."),
        _(
            "Nothing outside the container reaches the server: for that, choose “The network” under Access, and start the container with -p {port}:{port}."
        ).format(port=plan.value("port")),
    )


def try_command(plan: Plan, *, with_key: bool | None = None) -> str:
    """A curl line that proves that the server answers; the key is read from where it stands.

    ``with_key``: whether the server asks for one (default: where it is reached from the network)."""
    url = f"http://127.0.0.1:{plan.value('port')}/v1/models"
    if not (plan.value("access") == "network" if with_key is None else with_key):
        return f"curl -s {url}"
    env = bash_word(f"{plan.value('out_dir')}/{ENV_NAME}")
    return f"curl -s -H \"Authorization: Bearer $(sed -n 's/^VLLM_API_KEY=//p' {env})\" {url}"


def network_steps(plan: Plan) -> list[Step]:
    """What opens the way from the network; each step says what takes it back."""
    machine = plan.machine
    port = int(plan.value("port"))
    clients = _("Clients need the API key that stands in vllm.env.")
    if machine.in_container and plan.runtime == "docker":
        return [
            Step(
                _("Let clients in"),
                (),
                consequence=sentences(
                    _("Clients reach port {port} at the address of the machine that the Docker engine runs on.").format(port=port),
                    clients,
                ),
            )
        ]
    if machine.in_container:
        return [
            Step(
                _("Let clients in"),
                (),
                consequence=sentences(
                    _(
                        "This is a container: clients only reach port {port} if the container was started with -p {port}:{port}, at the address of the machine that it runs on."
                    ).format(port=port),
                    clients,
                ),
            )
        ]
    if machine.system.value != "wsl2" or machine.wsl is None:
        return _linux_steps(plan, port, clients)
    return [*_windows_steps(plan, port, clients), _clients_of_windows(port)]


def _linux_steps(plan: Plan, port: int, clients: str) -> list[Step]:
    """The firewall's line, for those who use one, and the address that clients take."""
    passing = (
        _("Docker itself opens the port past ufw and most rules of firewalld, so this is seldom needed.")
        if plan.runtime == "docker"
        else ""
    )
    firewalld = f"sudo firewall-cmd --permanent --add-port={port}/tcp && sudo firewall-cmd --reload"
    closing = f"sudo firewall-cmd --permanent --remove-port={port}/tcp && sudo firewall-cmd --reload"
    return [
        Step(
            _("If you use a firewall (this line is ufw's), let the port in"),
            (f"sudo ufw allow {port}/tcp",),
            consequence=sentences(
                passing,
                stopped(_("With firewalld: {line}").format(line=firewalld)),
                _("With rules of nftables' own: accept TCP port {port} in the input chain.").format(port=port),
                _back(f"sudo ufw delete allow {port}/tcp", closing),
            ),
        ),
        Step(
            _("Give clients this URL (the first address of this machine)"),
            (f"echo \"http://$(hostname -I | cut -d ' ' -f 1):{port}/v1\"",),
            consequence=sentences(_("Where the machine has several addresses, hostname -I lists them all."), clients),
        ),
    ]


def _clients_of_windows(port: int) -> Step:
    return Step(
        _("Find the address that clients take: it is the one of Windows, not of WSL2"),
        ("ipconfig | findstr IPv4",),
        "powershell",
        _("Clients then use http://ADDRESS:{port}/v1 with that address.").format(port=port),
    )


def _windows_steps(plan: Plan, port: int, clients: str) -> list[Step]:
    machine = plan.machine
    assert machine.wsl is not None
    rule = powershell_string(f"{RULE} {port}")
    firewall = f"New-NetFirewallRule -DisplayName {rule} -Direction Inbound -Action Allow -Protocol TCP -LocalPort {port} -Profile Private"
    if machine.wsl.networking_mode.value == "mirrored":
        name = f"vllm-wizard-{port}"
        vm = "'{40E0AC32-46A5-438A-A0B2-2B479E8F2E90}'"  # WSL's own creator id (Microsoft's documentation)
        return [
            Step(
                _("Open the Hyper-V firewall (mirrored networking)"),
                (
                    f"New-NetFirewallHyperVRule -Name {name} -DisplayName {rule} -Direction Inbound -VMCreatorId {vm} -Protocol TCP -LocalPorts {port}",
                ),
                "powershell-admin",
                sentences(
                    _("Other machines then reach the server at the address of Windows."),
                    clients,
                    _back(f"Remove-NetFirewallHyperVRule -Name {name}"),
                ),
            )
        ]
    if plan.runtime == "docker" and machine.docker.is_desktop.value:
        # Docker Desktop publishes on Windows itself: no port proxy, only the firewall.
        return [
            Step(
                _("Open the Windows firewall"),
                (firewall,),
                "powershell-admin",
                sentences(
                    _("Docker Desktop publishes the port on Windows; only the firewall is in the way."),
                    clients,
                    _back(f"Remove-NetFirewallRule -DisplayName {rule}"),
                ),
            )
        ]
    proxy = f"listenaddress=0.0.0.0 listenport={port}"
    return [
        Step(
            _("Let Windows pass the port on to WSL2"),
            (
                "$ip = (wsl hostname -I).Trim().Split(' ')[0]",
                f"netsh interface portproxy add v4tov4 {proxy} connectaddress=$ip connectport={port}",
                firewall,
            ),
            "powershell-admin",
            sentences(
                _(
                    "The address of WSL2 changes with every start of it: type the first two lines again after a restart."
                ),
                clients,
                _back(
                    f"netsh interface portproxy delete v4tov4 {proxy}",
                    f"Remove-NetFirewallRule -DisplayName {rule}",
                ),
            ),
        )
    ]


def _back(*lines: str) -> str:
    return _("To take it back one day: {lines}").format(lines="; ".join(lines))
