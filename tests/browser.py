"""A headless Chromium for the tests of pages: the system's own, driven by Selenium. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")


def missing() -> str | None:
    """What there is not: it comes from Debian's `chromium-driver`, and from the extra `test`."""
    if not any(map(shutil.which, CHROMIUM)):
        return "Chromium"
    if not shutil.which("chromedriver"):
        return "chromedriver"
    return None if importlib.util.find_spec("selenium") else "selenium"


def start() -> Any:
    """A new browser: a WebDriver of Selenium. Its logs have what the page said on the console, and its requests."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, CHROMIUM)))
    for option in ("headless=new", "disable-gpu", "disable-dev-shm-usage", "window-size=1400,1000"):
        options.add_argument(f"--{option}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium's sandbox is not for root
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def said(driver: Any) -> list[str]:
    """What has come to the console since the last call: errors, and what the page's policy refused."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requests(driver: Any) -> list[str]:
    """The addresses that were asked for since the last call."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


def screenshot(driver: Any, path: Path) -> None:
    """Save a picture of the whole page, as high as it is."""
    driver.set_window_size(1400, driver.execute_script("return document.documentElement.scrollHeight") + 150)
    assert driver.save_screenshot(str(path))
    driver.set_window_size(1400, 1000)
