"""The report of a store: one HTML file with the numbers and plots that people ask for."""

from __future__ import annotations

from trajstore.pipeline.report.writing import HtmlReport, write_report

__all__ = ["HtmlReport", "write_report"]
