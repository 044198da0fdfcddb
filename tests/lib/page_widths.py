#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a page of HTML fits into windows of given widths, in Chromium without a window.

    page_widths.py [--dark] BROWSER PAGE WIDTH[:PICTURE.png]...

Prints for each width: the width, the width that the content takes, and how many parts stick out of the page without a
scroll bar of their own. With a path behind the width it also writes a picture of the whole page. It speaks the
DevTools protocol through two pipes, and so needs no further package.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

# A part that stands in something that scrolls by itself may be wider.
STICKING_OUT = """
(() => {
  const scrolls = (part) => {
    for (let at = part.parentElement; at !== null && at !== document.body; at = at.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  return [...document.body.querySelectorAll('*')].filter((part) => {
    const box = part.getBoundingClientRect();
    return (box.right > innerWidth + 1 || box.left < -1) && box.width > 0 && !scrolls(part);
  }).length;
})()
"""


class Browser:
    def __init__(self, program, folder):
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()

        def hand_over():
            # The browser reads commands from descriptor 3, and writes its answers to 4.
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + folder, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=hand_over)
        os.close(to_browser)
        os.close(from_browser)
        self.commands = os.fdopen(commands, "wb", buffering=0)
        self.answers = os.fdopen(answers, "rb")
        self.rest = b""
        self.count = 0
        self.session = None
        self.events = []

    def message(self):
        while b"\0" not in self.rest:
            part = self.answers.read1(1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **arguments):
        self.count += 1
        command = {"id": self.count, "method": method, "params": arguments}
        if self.session:
            command["sessionId"] = self.session
        self.commands.write(json.dumps(command).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise ValueError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            self.events.append(answer.get("method"))

    def wait_for(self, event):
        while event not in self.events:
            self.events.append(self.message().get("method"))
        self.events.clear()

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def end(self):
        self.process.kill()
        self.process.wait()


def main():
    words = sys.argv[1:]
    dark = words[:1] == ["--dark"]
    program, page, *widths = words[1:] if dark else words
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            browser.call("Page.enable")
            if dark:
                browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            for word in widths:
                width, _, picture = word.partition(":")
                browser.call("Emulation.setDeviceMetricsOverride", width=int(width), height=800, deviceScaleFactor=1, mobile=int(width) < 600)
                browser.events.clear()
                browser.call("Page.navigate", url="file://" + os.path.abspath(page))
                browser.wait_for("Page.loadEventFired")
                print(width, browser.value("document.documentElement.scrollWidth"), browser.value(STICKING_OUT), flush=True)
                if picture:
                    shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
                    with open(picture, "wb") as file:
                        file.write(base64.b64decode(shot["data"]))
        finally:
            browser.end()


if __name__ == "__main__":
    main()
