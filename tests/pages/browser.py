"""A headless Chromium for tests, found on this machine and driven by its own driver: nothing is downloaded.

Where a browser is missing, or takes too long to start, its tests are skipped with the reason, and fail under CI. Every
wait has an end.
"""

import shutil
from threading import Thread

#: Seconds within which a browser must have started, and a page must have been read.
START, READ = 120, 60

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRIVERS = ("chromedriver", "chromium-driver", "chromium.chromedriver")

SETTINGS = (
    "--headless=new",
    "--no-sandbox",  # in a container the process is root
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--force-device-scale-factor=1",
    "--lang=en-US",
    "--window-size=1280,1000",
)


def programs():
    """The paths of a browser and its driver, or why there are none."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return None, None, "selenium is not installed: pip install -e '.[systems]'"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = next(filter(None, map(shutil.which, DRIVERS)), None)
    if browser is None or driver is None:
        missing = "Chromium" if browser is None else "chromedriver"
        return (
            None,
            None,
            f"no {missing} on this machine: apt-get install chromium chromium-driver",
        )
    return browser, driver, ""


def started(folder):
    """A browser that has started, or why it has not."""
    browser, driver, why = programs()
    if browser is None:
        return None, why
    found = {}

    def start():
        try:
            found["browser"] = _driven(browser, driver, folder)
        except Exception as error:  # whatever a browser on a strange machine may say
            found["why"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

    thread = Thread(target=start, daemon=True)
    thread.start()
    thread.join(START)
    if thread.is_alive():
        return None, f"the browser did not start within {START} s"
    return found.get("browser"), found.get("why", "")


def _driven(browser, driver, folder):
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = browser
    for setting in (*SETTINGS, f"--user-data-dir={folder}"):
        options.add_argument(setting)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.set_page_load_timeout(READ)
    made.set_script_timeout(READ)
    return made
