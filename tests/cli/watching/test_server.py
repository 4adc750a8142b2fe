from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from onnx_passes.cli.watching.server import ReportServer

PAGE = """<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="default-src 'none'"></head>
<body><p id="made">%s</p></body></html>"""


@pytest.fixture
def server(tmp_path):
    found = ReportServer(tmp_path / "report.html")
    yield found
    found.close()


def get(server: ReportServer, path: str = "", **headers: str) -> str:
    request = urllib.request.Request(server.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_before_the_first_run_there_is_a_page(server):
    assert "under way" in get(server)
    assert "EventSource" in get(server)


def test_serves_the_newest_report(server):
    server.report.write_text(PAGE % "first")
    assert '<p id="made">first</p>' in get(server)
    server.report.write_text(PAGE % "second")
    assert '<p id="made">second</p>' in get(server)
    assert "connect-src 'self'" in get(server)
    assert "EventSource" not in server.report.read_text()


def test_errors_are_shown_over_the_last_report(server):
    server.report.write_text(PAGE % "first")
    server.announce("cfg.yaml: <b> is wrong")
    assert "cfg.yaml: &lt;b&gt; is wrong" in get(server)
    assert '<p id="made">first</p>' in get(server)
    server.announce()
    assert 'role="alert"' not in get(server)


def test_pages_hear_of_a_newer_report(server):
    server.announce()
    with urllib.request.urlopen(f"{server.url}events?seen=0", timeout=10) as stream:
        assert stream.readline() == b"data: 1\n"
        server.announce()
        assert [stream.readline(), stream.readline()] == [b"\n", b"data: 2\n"]


@pytest.mark.parametrize(("path", "host", "code"), [("", "evil.example:80", 403), ("other", "localhost:1", 404)])
def test_answers_this_machine_alone(server, path, host, code):
    with pytest.raises(urllib.error.HTTPError) as error:
        get(server, path, Host=host)
    assert error.value.code == code
