"""A real Valkey or Redis, which may be killed and started again."""

import shutil
import socket
import subprocess
import time

SERVER = shutil.which("valkey-server") or shutil.which("redis-server")
PASSWORD = "planted-password"


class Store:
    """A server on one port, which may be killed and started again."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"valkey://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self.process = None

    def start(self):
        options = {
            "port": self.port, "bind": "127.0.0.1", "dir": self.folder, "requirepass": PASSWORD,
            "save": "", "appendonly": "no", "maxmemory": "8mb", "maxmemory-policy": "allkeys-lru",
        }  # fmt: skip
        arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.process = subprocess.Popen([SERVER, *arguments], stdout=subprocess.DEVNULL)
        until(self.answers)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def answers(self):
        try:
            return self("PING") == b"+PONG"
        except OSError:
            return False

    def __call__(self, *words):
        """Return the first line of the answer to a command, in the server's own protocol."""
        encoded = b"".join(_command(one) for one in (("AUTH", PASSWORD), words))
        with socket.create_connection(("127.0.0.1", self.port), 5) as link:
            link.sendall(encoded)
            answer = b""
            while answer.count(b"\r\n") < 2:
                answer += link.recv(65536)
        return answer.split(b"\r\n")[1]


def _command(words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def until(holds, seconds=20):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
