"""Runs each command that reads configuration files under files that have every key: only a program that is built as users
have it shows what clap checks without debug assertions."""

import re

# A line of each command of the page's table, or several, of which the last one is the command's.
LINES = {
    "cp": "linerate cp -r tree host:/data/",
    "sync": "linerate sync tree/ host:/data/tree",
    "stream": "linerate stream --seconds 0.2 host",
    "verify": "linerate verify tree host:/data/tree",
    "clean": "linerate clean -n host:/data",
    "attach": "linerate cp -r --detach host:/data/tree h1:/data/detached && linerate attach host",
    "status": "linerate status host",
    "measure": "linerate measure --host host -- true",
    "facts": "linerate facts host",
    "doctor": "linerate doctor host",
    "fleet run": "linerate fleet plan $PWD/tree host:/data/tree --shards 1 --into PLAN && linerate fleet run PLAN",
    "fleet verify": "linerate fleet verify PLAN",
}

USERS = """\
streams = 2
interfaces = "all"
port-range = "50000-50010"
compress = 3
bwlimit = "500mbit"
no-pacing = true
retry = 1
timeout = 30
port = 22
identity = "{identity}"
ssh-config = "{ssh_config}"
jump = "none"
option = ["Compression=no"]
ipv4 = true
ipv6 = false
agent-command = "{program}"
no-install = true
"""
# With ssh's options in the same file it is an error.
SYSTEMS = 'rsh = "ssh"\n'


def failures(page, program, place):
    """What is wrong with the commands of the page, a text each."""
    keys, commands = (names(page, heading) for heading in ("Options", "Which command takes which"))
    written = re.findall(r"(?m)^([\w-]+) =", USERS + SYSTEMS)
    wrong = [f"without a line or a value: {name}" for name in {*keys, *commands} ^ {*written, *LINES}]
    ssh_config = place.directory / "ssh_config"
    identity = re.search(r"(?m)^\s*IdentityFile (\S+)", ssh_config.read_text())[1]
    user = place.directory / "configured/linerate/config.toml"
    user.parent.mkdir(parents=True)
    user.write_text(USERS.format(identity=identity, ssh_config=ssh_config, program=program))
    system = place.directory / "configured/system.toml"
    system.write_text(SYSTEMS)
    for file in (user, system):
        file.chmod(0o644)
    place.fill()
    for command, line in LINES.items():
        code, output = place.run(place.of_here(line), {
            "LINERATE_NO_CONFIG": "", "XDG_CONFIG_HOME": str(user.parents[1]), "LINERATE_SYSTEM_CONFIG": str(system),
        })
        if code:
            wrong.append(f"{command}: {line}: {code}\n{output[-1000:]}")
    return wrong


def names(page, heading):
    """The names in the first column of a section's table."""
    section = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [name for row in re.findall(r"(?m)^\| (`.*?) \|", section) for name in re.findall(r"`([^`]+)`", row)]
