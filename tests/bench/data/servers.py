# SPDX-License-Identifier: Apache-2.0
"""rclone's S3 server, for the benchmarks of dl-data."""
import contextlib
import os
import socket
import subprocess
import time

from dlbench.samples import Unavailable

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))


@contextlib.contextmanager
def s3(place):
    """Yields the environment in which the remote `lab` is that server, and the path of rclone."""
    found = subprocess.run([os.path.join(TOP, "packaging", "install-rclone")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if found.returncode != 0:
        raise Unavailable(found.stderr.strip())
    rclone = found.stdout.strip()
    os.makedirs(place.path("s3", "bucket"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = place.path("rclone.conf")
    with open(config, "w", encoding="utf-8") as file:
        file.write("[lab]\ntype = s3\nprovider = Rclone\nendpoint = http://127.0.0.1:%d\naccess_key_id = bench\nsecret_access_key = bench12345\n"
                   "use_multipart_uploads = false\n" % port)
    os.chmod(config, 0o600)
    folder = place.path("bin")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "rclone")):
        os.symlink(rclone, os.path.join(folder, "rclone"))
    environment = dict(os.environ, RCLONE_CONFIG=config, PATH=folder + ":" + os.environ["PATH"])
    server = subprocess.Popen([rclone, "serve", "s3", "--addr", "127.0.0.1:%d" % port, "--auth-key", "bench,bench12345", "--vfs-cache-mode", "off",
                               "--dir-cache-time", "0s", "--poll-interval", "0", place.path("s3")], env=dict(os.environ, RCLONE_CONFIG="/dev/null"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if subprocess.run([rclone, "lsd", "lab:"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise Unavailable("rclone's S3 server does not answer")
        yield environment, rclone
    finally:
        server.kill()
        server.wait()
