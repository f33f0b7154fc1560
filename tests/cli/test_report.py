"""``trajstore report``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.pipeline.html_page import parse, rows


def test_a_file_is_written_and_said(cli: Cli, airline_pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "report.html"
    ran = cli("report", airline_pool, "-o", out)
    assert ran.code == 0
    assert "trajectories  200" in ran.out
    assert "no section 'timeline': no run says when it started" in ran.err
    assert "84 of 200 known" in parse(out.read_text()).by_id("numbers").text


def test_json_holds_every_number(cli: Cli, airline_pool: Path, tmp_path: Path) -> None:
    ran = cli("report", airline_pool, "-o", tmp_path / "r.html", "--json")
    told = json.loads(ran.out)
    assert told["sections"]["numbers"]["success"] == 84
    assert told["sections"]["tasks"]["kinds"]["mixed"] == 26
    assert told["size_bytes"] == (tmp_path / "r.html").stat().st_size


def test_the_page_goes_to_stdout(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    ran = cli("report", small_pool, "-o", "-")
    cli("report", small_pool, "-o", tmp_path / "r.html")
    assert ran.out == (tmp_path / "r.html").read_text()
    assert "stdout" in ran.err


def test_a_selection_brings_its_funnel(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    chosen, out = tmp_path / "best.parquet", tmp_path / "r.html"
    cli("select", small_pool, "--stage", "success", "-o", chosen)
    assert cli("report", small_pool, "-o", out, "--selection", chosen).code == 0
    assert rows(parse(out.read_text()).by_id("funnel"))[0][2:4] == ["3", "1"]


def test_a_condition_and_a_snapshot(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    ran = cli("report", small_pool, "-o", out, "--where", "task_id = 't/a'", "--at", "1", "--json")
    assert json.loads(ran.out)["trajectories"] == 2


def test_a_bad_condition_is_an_error_in_a_line(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    ran = cli("report", small_pool, "-o", tmp_path / "r.html", "--where", "rewrd > 1")
    assert ran.code == 1
    assert "rewrd" in ran.err
    assert not (tmp_path / "r.html").exists()


def test_a_folder_is_wrong_usage(cli: Cli, small_pool: Path, tmp_path: Path) -> None:
    ran = cli("report", small_pool, "-o", tmp_path)
    assert ran.code == 2
    assert "is a folder" in ran.err


def test_a_browser_draws_a_hostile_store(cli: Cli, hostile: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser here")
    out = tmp_path / "r.html"
    assert cli("report", hostile, "-o", out).code == 0
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/b"]
    done = subprocess.run(
        [browser, *flags, "--dump-dom", out.as_uri()],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    page = parse(done.stdout.partition("<!DOCTYPE html>")[2])
    picture = next(s for s in page.all("svg") if s.attributes.get("class") == "chart map")
    assert picture.attributes["tabindex"] == "0", "our own script did not run"
    assert len(list(page.all("script"))) == 1
