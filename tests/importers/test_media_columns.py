"""Media columns and the markers that stand for them."""

from __future__ import annotations

import json
from typing import Any

from trajstore.importers.media_columns import data_url, with_media
from trajstore.schema import Step


def parts(step: Step) -> Any:
    return json.loads(step.content or "null")


def test_markers_become_parts_in_order_and_the_text_keeps_them() -> None:
    asked = Step(actor="user", text="<image>Who?<image>")
    (step,), used = with_media([asked], {"images": ["a.jpg", "b.jpg"]})
    assert step.text == "<image>Who?<image>"
    assert parts(step) == [
        {"type": "image_url", "image_url": {"url": "a.jpg"}},
        {"type": "text", "text": "Who?"},
        {"type": "image_url", "image_url": {"url": "b.jpg"}},
    ]
    assert used == {"images"}


def test_media_go_on_over_several_steps() -> None:
    asked = [Step(actor="user", text=f"<image>{n}") for n in range(2)]
    steps, _ = with_media(asked, {"images": ["a", "b"]})
    assert [parts(s)[0]["image_url"]["url"] for s in steps] == ["a", "b"]


def test_each_kind_has_its_own_order() -> None:
    asked = Step(actor="user", text="<video><image><audio>")
    row = {"images": ["i"], "videos": ["v"], "audios": ["a"]}
    (step,), used = with_media([asked], row)
    assert [p["type"] for p in parts(step)] == ["video_url", "image_url", "audio_url"]
    assert used == set(row)


def test_a_marker_of_a_kind_without_column_stays_text() -> None:
    asked = Step(actor="user", text="<image> in <video>")
    (step,), _ = with_media([asked], {"images": ["i"]})
    assert parts(step)[1:] == [
        {"type": "text", "text": " in "},
        {"type": "text", "text": "<video>"},
    ]


def test_media_without_matching_markers_stand_on_the_first_user_step() -> None:
    steps = [Step(actor="system", text="s"), Step(actor="user", text="Look"), Step(actor="agent")]
    changed, _ = with_media(steps, {"images": ["a", "b"]})
    assert [len(parts(s) or []) for s in changed] == [0, 3, 0]


def test_parts_that_are_there_already_stay() -> None:
    asked = Step(actor="user", content='[{"type":"image"}]')
    (step,), _ = with_media([asked], {"images": ["a"]})
    assert [p["type"] for p in parts(step)] == ["image", "image_url"]


def test_without_media_nothing_changes() -> None:
    asked = (Step(actor="user", text="<image>"),)
    assert with_media(asked, {"images": [], "videos": None}) == (asked, frozenset())


def test_bytes_and_structs_become_urls() -> None:
    asked = Step(actor="user", text="<image><image><image>")
    row = {"images": [{"bytes": b"\xff\xd8\xffxx", "path": "a.jpg"}, {"path": "b.jpg"}, b"GIF89"]}
    (step,), _ = with_media([asked], row)
    urls = [p["image_url"]["url"] for p in parts(step)]
    assert urls == ["data:image/jpeg;base64,/9j/eHg=", "b.jpg", "data:image/gif;base64,R0lGODk="]


def test_the_two_kinds_of_riff_are_told_apart() -> None:
    assert data_url(b"RIFF\0\0\0\0WEBP").startswith("data:image/webp;")
    assert data_url(b"RIFF\0\0\0\0WAVE").startswith("data:audio/wav;")


def test_unknown_bytes_have_the_general_media_type() -> None:
    assert data_url(b"abc") == "data:application/octet-stream;base64,YWJj"
