# SPDX-License-Identifier: Apache-2.0
"""Lets a real Prometheus scrape a text of metrics, and asks it each query of the rules and of the dashboards.

prometheus.py PROMETHEUS TEXT RULES DASHBOARD...   prints a line for each fault; exit status 1 if there is any

It serves TEXT as node_exporter does, in a scrape job with a name of its own, on free ports of this machine alone.
"""
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE_S = 120  # for events that take a second or two


class Metrics(http.server.BaseHTTPRequestHandler):
    text = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(self.text)))
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *words):
        pass


class Prometheus:
    def __init__(self, program, folder, target, rules):
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [os.path.abspath(rules)],
                       "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [target]}]}]}, file)
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program, "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(folder, "data"),
                                             "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.url = None

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_ready(self):
        address = wait("Prometheus listens", lambda: re.search(r'msg="Listening on" address=(\S+)', self.said()), self.process)
        self.url = "http://" + address.group(1)
        wait("Prometheus is ready", lambda: "Server is ready" in self.said(), self.process)

    def get(self, path, **arguments):
        url = self.url + path + "?" + urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def end(self):
        self.process.terminate()
        self.process.wait()


def wait(what, look, process):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{what}: not within {PATIENCE_S} s")


def fault_of(answer):
    """None if the query was executed and has found something."""
    if answer.get("status") != "success":
        return answer.get("error", "no answer")
    if answer.get("warnings"):
        return "warnings: " + ", ".join(answer["warnings"])
    data = answer["data"]
    return None if (data["result"] if isinstance(data, dict) else data) else "finds nothing"


def filled_in(text, job):
    for name, value in (("$__rate_interval", "1m"), ("$instance", ".*"), ("$tenant", ".*"), ("$job_id", job)):
        text = text.replace(name, value)
    return text


def ask_dashboard(server, path):
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    name = os.path.basename(path)
    for variable in made["templating"]["list"]:
        asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
        if asked:
            answer = server.get(f"/api/v1/label/{asked.group(2)}/values", **{"match[]": filled_in(asked.group(1), "1")})
            yield f"{name}, variable {variable['name']}", fault_of(answer)
    for panel in made["panels"]:
        for target in panel["targets"]:
            # One job runs, and one waits: what is told of a job is told of one of them.
            faults = []
            for job in ("1", "4", "2"):
                expression = filled_in(target["expr"], job)
                if target["instant"]:
                    answer = server.get("/api/v1/query", query=expression)
                else:
                    now = time.time()
                    answer = server.get("/api/v1/query_range", query=expression, start=now - 60, end=now, step=1)
                faults.append(fault_of(answer))
            yield f"{name}, {panel['title']}: {target['expr']}", None if None in faults else faults[0]


def ask_rules(server):
    for group in server.get("/api/v1/rules")["data"]["groups"]:
        for rule in group["rules"]:
            if rule["health"] != "ok":
                yield f"rule {rule['name']}", f"health: {rule['health']} {rule.get('lastError', '')}"
            elif rule["type"] == "recording":
                yield f"rule {rule['name']}", fault_of(server.get("/api/v1/query", query=rule["name"]))
            else:
                answer = server.get("/api/v1/query", query=rule["query"])
                yield f"alert {rule['name']}", None if fault_of(answer) == "finds nothing" else fault_of(answer)


def ask_labels(server, text):
    """Each sample has come in, and none of its labels was pushed aside by one that Prometheus itself sets."""
    for name in sorted(set(re.findall(r"^([a-z_]+)[{ ]", text, re.M))):
        told = len(re.findall(rf"^{name}[{{ ]", text, re.M))
        kept = server.get("/api/v1/query", query=name)["data"]["result"]
        yield f"metric {name}", None if len(kept) == told else f"{told} samples are told, {len(kept)} are kept"
        aside = [label for sample in kept for label in sample["metric"] if label.startswith("exported_")]
        yield f"metric {name}", f"Prometheus calls a label {aside[0]}" if aside else None


def main():
    program, path, rules, *dashboards = sys.argv[1:]
    with open(path, "rb") as file:
        Metrics.text = file.read()
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        server = Prometheus(program, folder, f"127.0.0.1:{web.server_port}", rules)
        try:
            server.wait_ready()
            # Rates need several scrapes, and what is recorded of them needs rounds of the rules after these.
            scraped = 'count_over_time(up{job="node"}[5m]) > 3 and up == 1'
            wait("metrics are scraped", lambda: fault_of(server.get("/api/v1/query", query=scraped)) is None, server.process)
            recorded = "count_over_time(tenant:dl_requeues:increase1h[5m]) > 1"
            wait("rules are evaluated", lambda: fault_of(server.get("/api/v1/query", query=recorded)) is None, server.process)
            wait("all rules are evaluated", lambda: '"unknown"' not in json.dumps(server.get("/api/v1/rules")), server.process)
            found = list(ask_labels(server, Metrics.text.decode("utf-8"))) + list(ask_rules(server))
            for dashboard in dashboards:
                found += ask_dashboard(server, dashboard)
        finally:
            server.end()
    wrong = [f"{what}: {fault}" for what, fault in found if fault]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(found)} questions", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
