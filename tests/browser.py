"""A headless browser for tests of pages: Chromium, told what to do over a pipe by its DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 60


def find_browser():
    """The path of a browser, or None."""
    wanted = os.environ.get("BITPRESS_BROWSER")
    return wanted or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One running browser; `with Browser() as browser`."""

    def __init__(self):
        path = find_browser()
        assert path, "no Chromium is installed (apt-get install chromium)"
        self._folder = tempfile.TemporaryDirectory(prefix="bitpress-browser-", ignore_cleanup_errors=True)
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe"]
        # The protocol is on the descriptors 3 and 4.
        script = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(["bash", "-c", script, "bash", path, *options, "about:blank"], pass_fds=(commands, answers),
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._next_id = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method, session=None, **parameters):
        """The result of a command; events that come meanwhile are kept in `events`."""
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self._read, 1 << 16) if ready else b""
            assert part, "the browser does not answer"
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width=1100, height=900, is_phone=False):
        """A page from a file, loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone)
        # Elements must not move before they are clicked.
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        page.call("Page.navigate", url=path.absolute().as_uri())
        page.wait_for("document.readyState === 'complete'")
        return page


class Page:
    def __init__(self, browser, session):
        self._browser = browser
        self._session = session

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, expression):
        """The value of a JavaScript expression, which JSON can hold."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + TIMEOUT_S
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, f"still not: {expression}"
            time.sleep(0.02)

    def click(self, selector):
        """A click of the mouse in the middle of the first such element, scrolled into view."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector):
        x, y = self._middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _middle(self, selector):
        """Returns the middle of the element, once the page has been laid out and drawn."""
        return self.evaluate(f"""new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {{
            const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
            done([box.x + box.width / 2, box.y + box.height / 2]); }})))""")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def problems(self):
        """Returns the messages of the console, exceptions, and requests that leave the page."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            method, parameters = event["method"], event["params"]
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(parameters)
            if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "data:", "about:")):
                found.append(parameters["request"]["url"])
        return found
