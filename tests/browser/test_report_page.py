"""The report in a real browser: what a person clicks, types and prints; no error, no request, nothing run."""

import itertools
import time

import pytest

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
VIEWS = [
    pytest.param(size, scheme, id=f"{name}-{scheme}")
    for (name, size), scheme in itertools.product({"phone": PHONE, "desktop": DESKTOP}.items(), ("light", "dark"))
]


@pytest.fixture
def show(chromium, pages):
    """Open a page; at the end there was no console error and no request but for the file itself."""
    opened, troubles = [], []

    def call(name, size=DESKTOP, scheme="light", **options):
        context = chromium.new_context(viewport=size, color_scheme=scheme, **options)
        page = context.new_page()
        address = pages[name].as_uri()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url) if not _own(request.url, address) else None)
        page.goto(address)
        opened.append(context)
        return page

    yield call
    for context in opened:
        context.close()
    assert troubles == []


def _own(url, address):
    return url.split("#")[0] == address or url.startswith("data:")


def visible(page):
    return page.locator(".node:visible").count()


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
@pytest.mark.parametrize("name", ["three", "many"])
def test_it_fits_and_can_be_read(show, name, size, scheme):
    page = show(name, size, scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the screen"
    light = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128")
    assert light == (scheme == "light")
    node = page.locator(".node").first
    node.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nor once a node is open"
    for selector in (".detail", ".hint", ".source", ".name", ".about", "h1"):
        ratio = page.evaluate(CONTRAST, selector)
        assert ratio is None or ratio >= 4.5, f"{selector} has a contrast of {ratio:.1f}"


CONTRAST = """selector => {
  const element = [...document.querySelectorAll(selector)].find(each => each.checkVisibility());
  if (!element) return null;
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const linear = value => value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  let behind = element;
  while (behind && numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const colours = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
  const [dark, bright] = colours.map(colour => luminance(numbers(colour))).sort((a, b) => a - b);
  return (bright + .05) / (dark + .05);
}"""


class TestManyNodes:
    def test_failures_are_first_and_passes_folded(self, show):
        page = show("many")
        assert visible(page) == 21
        assert page.locator(".node").first.get_attribute("data-verdict") == "fail"
        page.locator(".fold > summary").click()
        assert visible(page) == 200

    def test_search(self, show):
        page = show("many")
        page.keyboard.press("/")
        page.keyboard.type("rack4-node77")
        assert visible(page) == 1
        assert page.locator("#count").inner_text() == "1 of 200"
        page.fill("#search", "rack2 VIRTUAL_ENV")
        assert visible(page) == 2
        page.fill("#search", "no such thing")
        assert page.locator("#nothing").is_visible()
        page.locator("#search").press("Escape")
        assert visible(page) == 21

    def test_verdicts_can_be_switched_off(self, show):
        page = show("many")
        page.get_by_role("button", name="with warnings").click()
        assert visible(page) == 6
        assert page.get_by_role("button", name="with warnings").get_attribute("aria-pressed") == "false"

    def test_a_column_filters_by_its_check(self, show):
        page = show("many")
        page.get_by_role("button", name="G1 CUDA 12/13 ABI: FAIL on 5 nodes").click()
        assert visible(page) == 5
        page.get_by_role("button", name="G1 CUDA 12/13 ABI").click()
        assert visible(page) == 21

    def test_a_cell_opens_its_check(self, show):
        page = show("many")
        page.locator(".node").first.locator(".cell.fail").click()
        check = page.locator("#n0-G1")
        assert check.is_visible()
        assert check.evaluate("each => each === document.activeElement")

    def test_it_is_quick(self, show):
        page = show("many")
        started = time.monotonic()
        page.locator("#search").press_sequentially("rack2-")
        assert visible(page) == 20
        assert time.monotonic() - started < 10


class TestKeyboardAndReader:
    def test_the_first_stop_skips_to_the_nodes(self, show):
        page = show("three")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the nodes"
        page.keyboard.press("Enter")
        page.wait_for_url("**#nodes")

    def test_rows_by_arrow_and_enter(self, show):
        page = show("three")
        page.locator(".node > summary").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.locator(".node").nth(1).get_attribute("open") is not None
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.parentElement.id") == "n0"

    def test_what_a_screen_reader_hears(self, show):
        page = show("three")
        row = page.locator(".node > summary").first
        assert "spark-1" in row.inner_text()
        assert "blocked, G3 WARN, G4 FAIL" in row.text_content()
        assert row.locator(".cell").first.get_attribute("aria-hidden") == "true"
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.lang") == "en"
        for control in page.locator("button, input").all():
            assert control.get_attribute("aria-label") or control.inner_text()
        row.click()
        assert "611 to 611 MHz" in page.get_by_role("img", name="SM clock over time").first.get_attribute("aria-label")
        assert page.get_by_role("img", name="before dropping the page cache").count() == 1


def test_without_a_script_everything_can_be_read(show):
    page = show("three", java_script_enabled=False)
    assert page.locator("#tools").is_hidden()
    page.locator(".node > summary").first.click()
    assert page.get_by_text("AC power").last.is_visible()


def test_open_all_and_print(show):
    page = show("three")
    page.get_by_role("button", name="Open all").click()
    assert page.locator(".node[open]").count() == 3
    page.get_by_role("button", name="Close all").click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".node[open]").count() == 2, "those that ask for something are printed open"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".node[open]").count() == 0
    assert page.pdf().startswith(b"%PDF")


def test_what_a_node_says_is_never_run(show):
    page = show("hostile")
    page.get_by_role("button", name="Open all").click()
    assert "owned" not in page.title()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.get_by_text("<script>document.title=").first.is_visible()


def test_its_own_policy_stops_what_would_slip_through(chromium, pages, tmp_path):
    """Markup planted past the escaping: neither its script nor its picture is loaded."""
    planted = (
        pages["three"]
        .read_text()
        .replace("<main>", "<main><script>document.title='owned'</script><img src=http://192.0.2.1/x>")
    )
    (tmp_path / "planted.html").write_text(planted)
    context = chromium.new_context()
    page = context.new_page()
    page.goto((tmp_path / "planted.html").as_uri())
    assert page.title().startswith("armstage preflight")
    context.close()
