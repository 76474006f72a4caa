"""Opens the page `/docs` of a running REST server in Chromium, and steps through a port with it. Keeps screenshots.

Usage: check_docs.py BROWSER ADDRESS_WITH_TOKEN SCREENSHOTS
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect, sync_playwright

SPEC = "gated_mlp/block"


def main(browser_path, address, screenshots):
    screenshots.mkdir(parents=True, exist_ok=True)
    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1100, "height": 900}).new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        server = urlsplit(address).netloc
        page.on("request", lambda request: urlsplit(request.url).netloc == server or errors.append(request.url))
        page.goto(address)
        step_through(page, screenshots)
        browser.close()
    assert not errors, errors


def step_through(page, screenshots):
    assert "token" not in page.url, "the token stays in the address bar"
    expect(page.locator("h1")).to_have_text("mlx-parity debug server")
    page.screenshot(path=screenshots / "docs.png")

    def send(path, status, **fields):
        """Opens an end point, fills in its fields, sends it, and returns what is shown."""
        box = page.locator("details", has=page.locator(f"summary code:text-is('{path}')"))
        if not box.evaluate("box => box.open"):
            box.locator("summary").click()
        for name, value in fields.items():
            box.locator(f"label:has(code:text-is('{name}'))").locator("input, textarea").fill(value)
        box.get_by_role("button", name="Send").click()
        expect(box.locator("pre.answer")).to_contain_text(f"{status} ", timeout=120_000)
        return box

    send("/debug/location", 409)
    send("/debug/start", 200, wait="120", body=f'{{"spec": "{SPEC}"}}')
    send("/debug/breakpoint", 200, body='{"pattern": "gated"}')
    box = send("/debug/continue_async", 200, wait="60")
    expect(box.locator("pre.answer")).to_contain_text('"name": "gated"')
    box.screenshot(path=screenshots / "docs-stop.png")
    box = send("/debug/tensors/{name}", 200, name="golden", slice="0, 0, :4")
    expect(box.locator("pre.answer")).to_contain_text('"kind": "tensor"')
    box = send("/debug/evaluate", 422, body='{"expression": "nothing"}')
    expect(box.locator("pre.answer")).to_contain_text("unknown name `nothing`")
    box.screenshot(path=screenshots / "docs-error.png")
    box = send("/debug/command", 200, body='{"line": "note from the page"}')
    expect(box.locator("pre.answer")).to_contain_text("noted")
    send("/debug/terminate", 200)
    page.screenshot(path=screenshots / "docs-used.png", full_page=True)
    print("ok  the page of the debug server steps through a port")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
