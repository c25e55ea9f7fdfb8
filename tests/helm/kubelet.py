"""Runs a container of a rendered pod as the kubelet does: its command, variables, volumes, probes,
preStop hook and grace period; only its port is another, and its volumes lie in a folder."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from live.process import COMMAND

ROOT = Path(__file__).parents[2]
ENTRYPOINT = {"fitgauge": COMMAND}
"""The commands of the image, by what its ENTRYPOINT calls them."""


def entrypoint():
    """Return the command that the Dockerfile starts."""
    (command,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', (ROOT / "Dockerfile").read_text(), re.M)
    return ENTRYPOINT[command]


class Pod:
    """The service's container of a Deployment.

    secrets, configs: the contents of Secrets and ConfigMaps of the cluster, by name and key."""

    def __init__(self, deployment, folder, secrets=None, configs=None):
        self.spec = deployment["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.folder = folder
        self.secrets, self.configs = secrets or {}, configs or {}
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.log = folder / "pod.log"
        self.mounts = {}
        for mount in self.container["volumeMounts"]:
            self.mounts[mount["mountPath"]] = self._volume(mount["name"])

    def _volume(self, name):
        """Return the folder of a volume, with its files."""
        (volume,) = [one for one in self.spec["volumes"] if one["name"] == name]
        folder = self.folder / name
        folder.mkdir()
        files = {}
        if "secret" in volume:
            files = self.secrets[volume["secret"]["secretName"]]
        elif "configMap" in volume:
            files = self.configs[volume["configMap"]["name"]]
        else:
            assert "emptyDir" in volume
        for key, text in files.items():
            (folder / key).write_text(text)
        return folder

    def environment(self):
        """Return the variables, secrets put in and $(NAME) expanded as the kubelet does."""
        made = {}
        for one in self.container["env"]:
            if "valueFrom" in one:
                reference = one["valueFrom"]["secretKeyRef"]
                value = self.secrets[reference["name"]][reference["key"]]
            else:
                known = made
                value = re.sub(
                    r"\$\((\w+)\)", lambda m, k=known: k.get(m[1], m[0]), one.get("value", "")
                )
            made[one["name"]] = value
        for path, folder in self.mounts.items():
            for name, value in made.items():
                if value == path or value.startswith(f"{path}/"):
                    made[name] = f"{folder}{value.removeprefix(path)}"
        return made

    def start(self, **environment):
        """Start the container as its image does, and wait as its startup probe does."""
        (port,) = [str(one["containerPort"]) for one in self.container["ports"]]
        args = [str(self.port) if word == port else word for word in self.container["args"]]
        assert args != self.container["args"]
        image = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}
        with self.log.open("wb") as out:
            self.popen = subprocess.Popen(
                [entrypoint(), *args],
                env={**image, **self.environment(), **environment},
                cwd=self.folder, stdout=out, stderr=out,
            )  # fmt: skip
        started = time.monotonic()
        probe = self.container["startupProbe"]
        patience = probe["failureThreshold"] * probe["periodSeconds"]
        while not self.probe("startupProbe"):
            assert self.popen.poll() is None, self.log.read_text()
            assert time.monotonic() < started + patience
            time.sleep(0.05)  # sooner than the kubelet, which would wait for a period

    def probe(self, name):
        """Return whether a probe succeeds: a status from 200 to 399 in its time."""
        what = self.container[name]
        (port,) = [one for one in self.container["ports"] if one["name"] == what["httpGet"]["port"]]
        assert port
        link = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=what.get("timeoutSeconds", 1)
        )
        try:
            link.request("GET", what["httpGet"]["path"])
            return 200 <= link.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    def stop(self):
        """Stop the container: preStop hook, SIGTERM, SIGKILL when the grace period is over. Return
        the exit code."""
        end = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        hook = self.container["lifecycle"]["preStop"]["exec"]["command"]
        assert shutil.which(hook[0])
        subprocess.run(hook, check=True, timeout=end - time.monotonic())
        self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self):
        """Kill the container."""
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(10)
