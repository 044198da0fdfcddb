# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of many nodes on this machine, with our plugins and programs or with none of them."""
import glob
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
NICE = -15  # of what a site's management and login machines run
SANDBOX = os.path.join(TOP, "tests", "sandbox", "dl-sandbox")


def checked(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(command[:4]), (done.stderr or done.stdout).strip()[-800:]))
    return done.stdout


def until(what, limit_s, text, every_s=0.1):
    """Waits until what() is true."""
    end = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > end:
            raise RuntimeError("not reached within %d s: %s" % (limit_s, text))
        time.sleep(every_s)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid, which="VmRSS"):
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return int(re.search(which + r":\s*(\d+) kB", file.read()).group(1)) / 1024


class Site:
    """up() at its making; close() ends it, and leaves nothing behind. tenants: how many there are, each with `quota` GPUs."""

    def __init__(self, build, name, nodes, gpus, ours, tenants=0, quota=0, conf=()):
        self.stage = os.path.join(build, "stage")
        self.build, self.nodes, self.gpus, self.ours, self.tenants = build, nodes, gpus, ours, tenants
        self.folder = tempfile.mkdtemp(prefix="bench-site-%s-" % name, dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.where = os.path.join(self.folder, "sandbox")
        self.metrics = os.path.join(self.folder, "metrics.prom")
        self.daemon = None
        self.environment = dict(os.environ, SLURM_CONF=os.path.join(self.where, "etc", "slurm.conf"))
        arguments = ["--nodes", str(nodes), "--gpus-per-node", str(gpus), "--cpus-per-node", str(2 * gpus), "--conf", "SlurmctldDebug=info",
                     "--conf", "SlurmdDebug=error", "--conf", "MaxJobCount=50000"]
        for line in conf:
            arguments += ["--conf", line]
        if tenants:
            arguments += ["--conf", "Licenses=" + ",".join("dl_t%d:%d" % (number, quota) for number in range(tenants))]
        if ours:
            toml = os.path.join(self.folder, "dl.toml")
            with open(toml, "w", encoding="utf-8") as file:
                file.write(self.dl_toml(quota))
            arguments += ["--prefix", self.stage, "--dl-toml", toml]
            self.environment["PATH"] = os.path.join(self.stage, "bin") + ":" + self.environment["PATH"]
        began = time.monotonic()
        try:
            self.call("up", *arguments)
        except RuntimeError:
            self.close()
            raise
        self.up_s = time.monotonic() - began
        self.favour("munged", "slurmctld")

    def dl_toml(self, quota):
        text = "[frameworks]\ncatalogue = [\"%s\"]\n[nodes]\ngpus_per_node = %d\n" % (
            os.path.join(self.stage, "share", "slurm-dl", "frameworks.d"), self.gpus)
        text += "[tiers.guaranteed]\npartition = \"batch\"\n[tiers.borrow]\npartition = \"borrow\"\n"
        return text + "".join("[tenants.t%d]\nquota = %d\n" % (number, quota) for number in range(self.tenants))

    def call(self, *arguments):
        return checked([SANDBOX, arguments[0], "--dir", self.where, *arguments[1:]])

    def slurm(self, *command):
        """What a command of Slurm's or of ours prints, started outside of the sandbox."""
        return checked(list(command), env=self.environment, cwd=self.folder)

    def timed(self, *command):
        """Seconds that a command takes on a login machine: no node's work keeps it waiting."""
        began = time.monotonic()
        self.slurm("nice", "-n", str(NICE), *command)
        return time.monotonic() - began

    def pid(self, name):
        with open(os.path.join(self.where, "run", name + ".pid"), encoding="utf-8") as file:
            return int(file.read().split()[0])

    def favour(self, *daemons):
        """On a site these have a machine of their own, which no node's work keeps busy."""
        for name in daemons:
            for thread in os.listdir("/proc/%d/task" % self.pid(name)):
                os.setpriority(os.PRIO_PROCESS, int(thread), NICE)

    def jobs(self, state=None):
        listed = self.slurm("squeue", "--noheader", "--format=%T", *(["--states=" + state] if state else []))
        return len(listed.split())

    def program(self, *parts):
        """A program of the build, where every user of the machine may run it."""
        path = os.path.join(self.folder, parts[-1])
        if not os.path.exists(path):
            shutil.copy(os.path.join(self.build, "tests", "bench", *parts), path)
        return path

    def start_daemon(self):
        with open(os.path.join(self.folder, "daemon.log"), "a", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(["nice", "-n", str(NICE), os.path.join(self.stage, "sbin", "dlpolicyd"), "--config", os.path.join(self.where, "etc", "dl.toml"),
                                            "--pidfile", os.path.join(self.folder, "lock"), "--metrics-file", self.metrics],
                                           stdout=log, stderr=log, env=self.environment)
        until(lambda: self.metric("dl_policyd_round_seconds") > 0, 120, "the first round of dlpolicyd")

    def stop_daemon(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
            self.daemon = None
            if os.path.exists(self.metrics):
                os.remove(self.metrics)

    def metric(self, name):
        """A figure of dlpolicyd's; 0 before its first round."""
        try:
            with open(self.metrics, encoding="utf-8") as file:
                found = re.search(r"(?m)^%s (\S+)$" % name, file.read())
        except OSError:
            return 0.0
        return float(found.group(1)) if found else 0.0

    def requests(self):
        """How many requests of each kind slurmctld has had."""
        counts = re.findall(r"(REQUEST_\w+|MESSAGE_\w+)\s*\(.*?count:(\d+)", self.slurm("sdiag"))
        return {name: int(count) for name, count in counts}

    def empty(self):
        """No job is left, not even in slurmctld's memory."""
        self.stop_daemon()
        # Of thousands of jobs scancel cancels some only when it is asked again: it gives up those for which it had to wait.
        for _ in range(20):
            if self.jobs() == 0:
                break
            try:
                self.slurm("scancel", "--user=root")
            except RuntimeError:
                time.sleep(5)
        until(lambda: self.jobs() == 0, 300, "all jobs have ended", 0.5)
        until(lambda: "idle" in self.slurm("sinfo", "-h", "-o", "%T") and not re.search("alloc|comp|mix", self.slurm("sinfo", "-h", "-o", "%T")),
              120, "all nodes are idle", 0.5)
        self.call("daemon", "stop", "slurmctld")
        for name in glob.glob(os.path.join(self.where, "state", "job_state*")):
            os.remove(name)

    def use(self, ours):
        """The same site with our plugins and dlpolicyd, or without; slurmctld is started again. Only after empty()."""
        for name, pattern, line in (("slurm.conf", r"(?m)^JobSubmitPlugins=.*\n", "JobSubmitPlugins=dl\n"),
                                    ("plugstack.conf", r"(?m)^.*spank_dl.so\n", "required %s\n" % self.spank())):
            path = os.path.join(self.where, "etc", name)
            with open(path, encoding="utf-8") as file:
                text = re.sub(pattern, "", file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + (line if ours else ""))
        self.ours = ours
        self.call("daemon", "start", "slurmctld")
        self.favour("slurmctld")
        until(self.answers, 60, "slurmctld answers")
        until(lambda: not re.search("down|unk", self.slurm("sinfo", "-h", "-o", "%T")), 120, "all nodes are there", 0.5)
        if ours:
            self.start_daemon()

    def answers(self):
        try:
            return "UP" in self.slurm("scontrol", "ping")
        except RuntimeError:
            return False

    def verified(self, directory, step):
        """Whether a checkpoint of that train step is there, and every checksum in it holds."""
        try:
            self.slurm("dlckpt", "verify", "-q", "--step", str(step), directory)
        except RuntimeError:
            return False
        return True

    def spank(self):
        return glob.glob(os.path.join(self.stage, "lib", "**", "spank_dl.so"), recursive=True)[0]

    def close(self):
        self.stop_daemon()
        subprocess.run([SANDBOX, "down", "--dir", self.where], stdout=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Spread:
    """Mean, least, most and standard deviation of some seconds."""

    def __init__(self, values):
        self.mean, self.least, self.most = statistics.mean(values), min(values), max(values)
        self.deviation = statistics.pstdev(values)
