"""A headless Chromium or Chrome, spoken to by its own protocol over two pipes: what test_report.py opens a page with.
Needs Python's own library only."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"]


def find():
    """The program: what CHROME names, or else the first that is installed; None if there is none."""
    named = os.environ.get("CHROME")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in one browser, which ends with the `with` block."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp()
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def descriptors():  # the browser reads from 3 and writes to 4
            there = os.dup(to_browser), os.dup(from_browser)
            os.dup2(there[0], 3)
            os.dup2(there[1], 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        command = [program, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                   "--hide-scrollbars", f"--user-data-dir={self.folder}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # which root cannot have
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=descriptors, close_fds=False,
                                        env={**os.environ, "TMPDIR": self.folder})  # what it leaves there goes, too
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events = 0, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.process.terminate()
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.out)
        os.close(self.inp)
        for _ in range(50):  # its other processes may still be writing there
            shutil.rmtree(self.folder, ignore_errors=True)
            time.sleep(0.1)
            if not os.path.exists(self.folder):
                break

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.inp, 1 << 16)
            if not more:
                raise OSError("the browser has ended")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url, width, scheme):
        """Opens a page in a window of so many pixels, in a "dark" or a "light" scheme."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        for _ in range(600):
            if self.evaluate("document.readyState") == "complete" and self.evaluate("location.href") != "about:blank":
                return
            time.sleep(0.05)
        raise OSError(f"{url} was not loaded within 30 s")

    def evaluate(self, expression):
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise OSError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")

    def complaints(self):
        """What the page brought onto the console: exceptions, errors, warnings of the browser, failed requests."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(argument.get("value")) for argument in params["args"]))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event.get("method") == "Network.loadingFailed":
                found.append(params["errorText"])
        return found

    def requests(self):
        """The addresses that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
