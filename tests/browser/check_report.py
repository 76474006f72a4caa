"""Opens report.html in Chromium and uses it as people do. Keeps screenshots.

Usage: check_report.py BROWSER PAGES SCREENSHOTS
"""

import statistics
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import expect, sync_playwright

FAULTY = "made/decoder::layers.4.attn.out"


def main(browser_path, pages, screenshots):
    screenshots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        check = Check(browser, pages, screenshots)
        for name in sorted(name for name in dir(check) if name.startswith("test_")):
            getattr(check, name)()
            assert not check.errors, check.errors
            print(f"ok  {name[5:].replace('_', ' ')}")
        browser.close()


class Check:
    """One method per thing that must work."""

    def __init__(self, browser, pages, screenshots):
        self.browser, self.pages, self.screenshots = browser, pages, screenshots
        self.errors = []

    def open(self, name, state="", width=1440, height=900, **options):
        """A page in a context of its own. Any error of its script, and any request but for the file itself, fails the test."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(f"{name}: {error}"))
        page.on("console", lambda message: message.type == "error" and self.errors.append(f"{name}: {message.text}"))
        page.on("request", lambda request: self.allow(name, request.url))
        page.goto(f"{(self.pages / name).resolve().as_uri()}{state}")
        page.wait_for_selector("html[data-ready]")
        return page

    def allow(self, name, url):
        if not url.startswith(("file:", "data:")):
            self.errors.append(f"{name} asks for {url}")

    def keep(self, page, name):
        page.screenshot(path=self.screenshots / f"{name}.png")

    def test_the_verdict_comes_first_and_counts_add_up(self):
        page = self.open("red.html")
        expect(page.locator("h1")).to_have_text("29 of 118 trials failed")
        expect(page.locator(".sum")).to_have_text("118 declared=89 passed+29 failed")
        expect(page.locator(".cause").first).to_contain_text("The first faulty stage is layers.4.attn.out")
        sizes = page.evaluate("['.cause .what', '.cause .next', '.meta'].map((name) => parseFloat(getComputedStyle(document.querySelector(name)).fontSize))")
        assert sizes[0] > max(sizes[1:]), "the cause is the largest text below the verdict"
        assert not page.locator(".banner").count(), "nothing was injected"
        assert page.locator("b:has-text('norm')").count() == 0, "markup in a quoted line stays text"
        self.keep(page, "red")

    def test_a_click_on_a_red_checkpoint_shows_its_details(self):
        page = self.open("red.html")
        page.evaluate("scrollTo(0, 500)")
        page.locator(f'.row[data-key="{FAULTY}"]').click()
        panel = page.locator(".panel")
        expect(panel.locator("h2")).to_have_text("layers.4.attn.out")
        for text in ["Value differs", "first faulty stage", "eps 1e-5 in place of 1e-6", "Look at", "src/model.rs:57", "pkg/modeling_x.py:61",
                     "</script><b>norm</b>", "Worst elements", "First values", "axis 2 (16)", "96 elements equal"]:
            expect(panel).to_contain_text(text, ignore_case=True)
        expect(panel.locator("pre.text").first).to_have_text(f"cargo test --test parity -- --exact {FAULTY}")
        assert quote(FAULTY, safe="") in page.url, page.url
        colours = page.evaluate("""() => { const c = document.querySelector('.heat canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(Array.from({length: d.length / 4}, (_, i) => d.slice(4 * i, 4 * i + 3).join())).size; }""")
        assert colours > 5, "the heat map has colours"
        self.keep(page, "details")
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
        page.go_back()
        expect(page.locator(".panel h2")).to_have_text("layers.4.attn.out")

    def test_the_address_restores_filters_and_selection(self):
        page = self.open("red.html")
        page.locator('.chip[data-status="fail"]').click()
        page.get_by_label("Stage").select_option("mlp")
        page.get_by_label("Search names").fill("layers.1")
        expect(page.locator(".found")).to_have_text("3 of 118 trials")
        page.locator(".row", has_text="layers.10.mlp.out").click()
        again = self.open("red.html", state="#" + page.url.split("#")[1])
        expect(again.locator(".found")).to_have_text("3 of 118 trials")
        expect(again.get_by_label("Search names")).to_have_value("layers.1")
        expect(again.locator('.chip[data-status="fail"]')).to_have_attribute("aria-pressed", "true")
        expect(again.locator(".panel h2")).to_have_text("layers.10.mlp.out")
        again.get_by_role("button", name="Reset").click()
        expect(again.locator(".found")).to_have_text("118 trials")
        again.get_by_label("Search names").fill("nothing is called that")
        expect(again.locator(".nothing")).to_be_visible()

    def test_the_ladder_is_drawn_and_its_points_lead_to_rows(self):
        page = self.open("red.html")
        ladder = page.locator('[data-spec="made/decoder"] figure svg[role="img"]')
        for text in ["first divergence: layers.4.attn.out", "share of the gate, log scale", "checkpoints in order of execution"]:
            expect(ladder).to_contain_text(text)
        for part in [".free", ".golden", ".gate", ".floor"]:
            assert len(ladder.locator(part).first.get_attribute("d")) > 10, part
        assert ladder.locator(".point.fail").count() == 20
        box = ladder.bounding_box()
        page.mouse.click(box["x"] + box["width"] - 16, box["y"] + 60)
        expect(page.locator(".panel h2")).to_have_text("layers.11.mlp.out")
        page.locator('[data-spec="made/decoder"]').get_by_label("Scale of the picture").select_option("relative")
        assert "y=relative" in page.url

    def test_the_keyboard_is_enough(self):
        page = self.open("red.html")
        page.keyboard.press("n")
        expect(page.locator(".panel h2")).to_have_text("layers.4.attn.out")
        page.keyboard.press("n")
        expect(page.locator(".panel h2")).not_to_have_text("layers.4.attn.out")
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(".panel")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        expect(page.get_by_label("Search names")).to_be_focused()

    def test_backwards_is_from_the_picture_to_the_text(self):
        page = self.open("red.html", state="#sort=backwards")
        ids = page.locator(".spec").evaluate_all("specs => specs.map((spec) => spec.dataset.spec)")
        assert ids == ["made/picture", "made/green", "made/decoder", "made/encoder"], ids
        page.get_by_label("Order").select_option("run")
        expect(page.locator(".spec").first).to_have_attribute("data-spec", "made/decoder")

    def test_another_run_has_its_column(self):
        page = self.open("against.html", state="#sort=change")
        row = page.locator('[data-spec="made/decoder"] .row').first
        expect(row).to_contain_text("→")
        row.click()
        expect(page.locator(".panel")).to_contain_text("Against before", ignore_case=True)
        self.keep(page, "against")

    def test_pictures_are_in_the_page(self):
        page = self.open("red.html", state="#at=made/picture::pixels")
        images = page.locator(".triptych img")
        expect(images).to_have_count(3)
        assert all(image.evaluate("image => image.naturalWidth") == 24 for image in images.all())
        # An earlier stage is faulty, so nobody is asked to approve the picture.
        expect(page.locator(".panel")).to_contain_text("Mend decoded first, then look at the picture")

    def test_a_dark_page_and_a_phone(self):
        page = self.open("red.html", state=f"#at={FAULTY}", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 27)"
        self.keep(page, "dark")
        for state, name in [("", "phone"), (f"#at={FAULTY}", "phone-details")]:
            page = self.open("red.html", state=state, width=390, height=844, device_scale_factor=2, is_mobile=True, has_touch=True)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"the page is {wide} pixels wide on a phone"
            self.keep(page, name)
        page.get_by_role("button", name="Close").click()
        expect(page.locator(".panel")).to_have_count(0)

    def test_it_prints(self):
        page = self.open("red.html")
        page.pdf(path=self.screenshots / "red.pdf")
        page.emulate_media(media="print")
        expect(page.locator(".tools")).to_be_hidden()

    def test_ten_thousand_checkpoints_are_quick(self):
        for name, title in [("large.html", "4,000 of 10,001 trials failed"), ("green.html", "All 10,001 trials passed")]:
            page = self.open(name)
            expect(page.locator("h1")).to_have_text(title)
            assert page.locator(".row").count() < 200, "only rows in view are in the page"
        page = self.open("large.html")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.locator(".row").last).to_contain_text("fixture")
        page.get_by_label("Search names").fill("layers.2499.3")
        expect(page.locator(".found")).to_have_text("1 of 10,001 trials")
        self.keep(page, "large-found")
        page.get_by_label("Search names").fill("")
        page.evaluate("scrollTo(0, 0)")
        self.keep(page, "large")

    def test_times_to_open(self):
        """Printed, not judged: a busy machine is slow."""
        for name in ["red.html", "large.html"]:
            times = [self.open(name).evaluate("performance.getEntriesByType('navigation')[0].domComplete") for _ in range(5)]
            size = (self.pages / name).stat().st_size
            print(f"    {name}: opens in {statistics.median(times):.0f} ms (median of 5), {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
