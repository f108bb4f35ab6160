"""URLs: public addresses only, redirects, limits on size and time. A server on this computer."""

from __future__ import annotations

import http.server
import io
import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from proxy_engine import ImageContent, MediaError, MediaOptions
from proxy_engine.media.fetching import fetch, is_public, trusted_certificates
from proxy_engine.media.images import load_image

LOCAL = MediaOptions(allow_private_addresses=True, url_timeout=5.0)


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(file, "PNG")
    return file.getvalue()


def fetched(url: str, options: MediaOptions = LOCAL, **more: Any) -> bytes:
    return fetch(url, options, more.pop("max_bytes", 10_000), "max_image_bytes", **more)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by path."""

    requests: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.requests.append((self.path, self.headers["Host"]))
        route, _, argument = self.path[1:].partition("?")[0].partition("/")
        getattr(self, f"get_{route}", self.get_missing)(argument)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def get_image(self, argument: str) -> None:
        self.answer(200, png(), Content_Type="image/png", Content_Length=str(len(png())))

    def get_unsized(self, argument: str) -> None:
        self.answer(200, b"x" * int(argument))

    def get_sized(self, argument: str) -> None:
        self.answer(200, b"x" * 10, Content_Length=argument)

    def get_chunked(self, argument: str) -> None:
        chunk = b"5\r\nhello\r\n"
        self.answer(200, chunk * int(argument) + b"0\r\n\r\n", Transfer_Encoding="chunked")

    def get_cutchunk(self, argument: str) -> None:
        self.answer(200, b"5\r\nhel", Transfer_Encoding="chunked")

    def get_gzip(self, argument: str) -> None:
        self.answer(200, b"x", Content_Encoding="gzip")

    def get_html(self, argument: str) -> None:
        self.answer(200, b"<!doctype html><title>Not found</title>", Content_Type="image/png")

    def get_again(self, argument: str) -> None:
        left = int(argument)
        self.answer(302, b"", Location=f"/again/{left - 1}" if left > 1 else "/image")

    def get_to(self, argument: str) -> None:
        self.answer(301, b"", Location=argument)

    def get_nowhere(self, argument: str) -> None:
        self.answer(302, b"")

    def get_slow(self, argument: str) -> None:
        """A byte from time to time, each in time for the timeout of a socket."""
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.05)
        except OSError:
            pass

    def get_slowheaders(self, argument: str) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(60):
                self.wfile.write(f"X{number}: x\r\n".encode())
                time.sleep(0.05)
        except OSError:
            pass

    def get_missing(self, argument: str) -> None:
        self.answer(404, b"")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_content_is_returned(server: str) -> None:
    assert fetched(f"{server}/image") == png()
    assert fetched(f"{server}/unsized/500") == b"x" * 500
    assert fetched(f"{server}/chunked/7") == b"hello" * 7
    assert fetched(f"{server}/image?ä=ö#part") == png()


def test_image_at_a_url_is_loaded(server: str) -> None:
    assert load_image(ImageContent(url=f"{server}/image"), LOCAL).image.size == (3, 2)


def test_media_type_of_the_server_is_not_trusted(server: str) -> None:
    with pytest.raises(MediaError, match="HTML"):
        load_image(ImageContent(url=f"{server}/html"), LOCAL)


def test_host_is_sent_by_name_and_connected_by_address(server: str) -> None:
    port = server.rpartition(":")[2]
    asked: list[str] = []

    def resolver(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    assert fetched(f"http://pictures.example:{port}/image", resolver=resolver) == png()
    assert asked == ["pictures.example"]
    assert Handler.requests[-1] == ("/image", f"pictures.example:{port}")


def test_next_address_is_tried(server: str) -> None:
    port = server.rpartition(":")[2]
    addresses = ["127.0.0.254", "127.0.0.1"]
    assert fetched(f"http://x.example:{port}/image", resolver=lambda _: addresses) == png()


def test_redirects_are_followed_up_to_three_times(server: str) -> None:
    assert fetched(f"{server}/again/3") == png()
    with pytest.raises(MediaError, match="more than 3 redirects"):
        fetched(f"{server}/again/4")
    with pytest.raises(MediaError, match="status 302"):
        fetched(f"{server}/nowhere")


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://example.org/x", "data:image/png;base64,AAAA"]
)
def test_redirects_lead_to_http_only(server: str, target: str) -> None:
    with pytest.raises(MediaError, match="neither http nor https"):
        fetched(f"{server}/to/{target}")


def test_redirects_to_private_addresses_are_refused(server: str) -> None:
    """A public host may not lead to a private one, by name or by address."""
    port = server.rpartition(":")[2]
    hosts = {"public.example": ["93.184.216.34"], "intranet.example": ["10.0.0.7"]}
    asked: list[str] = []

    def resolver(host: str) -> list[str]:
        asked.append(host)
        return hosts.get(host, [host])

    for host in ("intranet.example", "169.254.169.254", f"127.0.0.1:{port}"):
        # No connection is made: the first host is refused, or else the second.
        with pytest.raises(MediaError, match="not public") as caught:
            fetched(f"http://{host}/image", MediaOptions(), resolver=resolver)
        assert caught.value.limit == "allow_private_addresses"
        assert "10.0.0.7" not in str(caught.value)


def test_redirect_is_checked_like_the_first_url(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, the server counts as public, and the host of its redirect does not."""
    monkeypatch.setattr("proxy_engine.media.fetching.is_public", lambda ip: ip == "127.0.0.1")
    resolver = {"metadata.example": ["169.254.169.254"]}
    with pytest.raises(MediaError, match=r"'metadata\.example' has an address that is not public"):
        fetched(
            f"{server}/to/http://metadata.example/",
            MediaOptions(),
            resolver=lambda host: resolver.get(host, [host]),
        )


def test_one_private_address_among_public_ones_is_refused() -> None:
    with pytest.raises(MediaError, match="not public"):
        fetched(
            "http://x.example/", MediaOptions(), resolver=lambda _: ["93.184.216.34", "10.0.0.1"]
        )


FORMS: list[Callable[[int], str]] = [
    lambda n: str(n),
    lambda n: hex(n),
    lambda n: f"0{n:o}",
    lambda n: ".".join(str(n >> shift & 255) for shift in (24, 16, 8, 0)),
    lambda n: ".".join(hex(n >> shift & 255) for shift in (24, 16, 8, 0)),
    lambda n: ".".join(f"0{n >> shift & 255:o}" for shift in (24, 16, 8, 0)),
    lambda n: f"{n >> 24}.{n & 0xFFFFFF}",
    lambda n: f"{n >> 24}.{n >> 16 & 255}.{n & 0xFFFF}",
    lambda n: f"[::ffff:{ipaddress.IPv4Address(n)}]",
    lambda n: f"[::ffff:{n >> 16:x}:{n & 0xFFFF:x}]",
    lambda n: f"[::{ipaddress.IPv4Address(n)}]",
    lambda n: f"[64:ff9b::{n >> 16:x}:{n & 0xFFFF:x}]",
    lambda n: f"[2002:{n >> 16:x}:{n & 0xFFFF:x}::1]",
]
PRIVATE = [
    "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
    "100.64.0.0/10", "0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "192.0.2.0/24", "198.18.0.0/15",
]  # fmt: skip


@given(st.data())
def test_private_addresses_are_refused_in_every_notation(data: st.DataObject) -> None:
    network = ipaddress.IPv4Network(data.draw(st.sampled_from(PRIVATE)))
    first = int(network.network_address)
    number = data.draw(st.integers(first, first + network.num_addresses - 1))
    host = data.draw(st.sampled_from(FORMS))(number)
    port = data.draw(st.sampled_from(["", ":80", ":1"]))
    scheme = data.draw(st.sampled_from(["http", "https", "HTTP"]))
    # A notation that the operating system does not know has no address.
    with pytest.raises(MediaError, match="cannot read"):
        fetched(f"{scheme}://{host}{port}/", MediaOptions())
    assert not is_public(host.strip("[]"))


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[fe80::1]", "[fc00::1]"),
        *("[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[::ffff:0:127.0.0.1]"),
        *("[2001:0:7f00:1::]", "169.254.169.254", "0", "127.1", "0x7f.1", "2130706433"),
        *("017700000001", "１２７.０.０.１"),
    ],
)
def test_hosts_that_are_this_computer_or_its_network_are_refused(host: str) -> None:
    with pytest.raises(MediaError, match="cannot read"):
        fetched(f"http://{host}:1/", MediaOptions())


# Around the limits of special networks, the metadata addresses of clouds, and the addresses on which
# versions of Python differ.
PUBLIC = {
    False: """
        0.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 168.63.129.16 169.254.169.254
        169.254.170.2 172.31.255.255 192.0.0.0 192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.192
        192.0.0.255 192.31.196.1 192.52.193.1 192.88.99.1 192.175.48.1 198.19.255.255
        198.51.100.7 203.0.113.7 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
        :: ::1 ::8.8.8.8 ::ffff:0:8.8.8.8 ::ffff:192.0.0.192 ::ffff:168.63.129.16
        64:ff9b::192.0.0.192 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 100:0:0:1::1
        2001::1 2001:0:808:808::f7f7:f7f7 2001:1::1 2001:1::2 2001:1::3 2001:2::1 2001:3::1
        2001:4:112::1 2001:10::1 2001:20::1 2001:30::1 2001:1ff:ffff::1 2001:db8::1
        2002:7f00:1:: 2002:a9fe:a9fe::1 2002:c000:c0::1 2620:4f:8000::1 3fff::1 3fff:fff::1
        4000::1 5f00::1 fc00::1 fd00:ec2::254 fd20:ce::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
        x 1.2.3 0127.0.0.1 8.8.8.8/32
    """,
    True: """
        1.0.0.0 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0
        168.63.129.15 168.63.129.17 169.253.255.255 172.15.255.255 172.32.0.0 191.255.255.255
        192.0.1.0 192.0.3.0 198.17.255.255 198.20.0.0 223.255.255.255 ::ffff:8.8.8.8
        64:ff9b::808:808 2001:200::1 2001:db7:ffff::1 2001:db9::1 2002:808:808::1 2606:4700::1111
        2620:4f:7fff::1 2620:4f:8001::1 3fff:1000::1 3ffe::1
    """,
}


def test_public_addresses_are_those_of_no_special_network() -> None:
    assert not is_public("")
    for expected, addresses in PUBLIC.items():
        for address in addresses.split():
            assert is_public(address) == expected, address


@given(st.one_of(st.ip_addresses(v=4), st.sampled_from(PRIVATE).flatmap(
    lambda network: st.ip_addresses(v=4, network=network)
)))  # fmt: skip
def test_embedded_address_decides(address: Any) -> None:
    for form in ("::ffff:{}", "64:ff9b::{}", "2002:{:x}:{:x}::1"):
        number = int(address)
        text = form.format(*(number >> 16, number & 0xFFFF) if ":x" in form else (address,))
        assert is_public(text) == is_public(str(address))


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http:x", "no host"),
        ("https://user@example.org/", "user name"),
        ("https://user:secret@example.org/", "user name"),
        ("http://example.org@127.0.0.1/", "user name"),
        ("http://example.org\\@127.0.0.1/", "backslashes"),
        ("http://exa mple.org/", "spaces"),
        ("http://example.org/\r\nHost: x", "control characters"),
        ("http://example.org/\t", "control characters"),
        ("http://[::1/", "cannot read"),
        ("http://example.org:0x1/", "cannot read"),
        ("http://example.org:99999/", "cannot read"),
        ("http://example.org:x/", "cannot read"),
        ("http://" + "a" * 70 + "ä.org/", "cannot read"),
        ("http://example.org/" + "x" * 9000, "characters"),
    ],
)
def test_malformed_urls_are_refused(url: str, what: str) -> None:
    with pytest.raises(MediaError, match=what) as caught:
        fetched(url, resolver=lambda _: [])
    assert "secret" not in caught.value.hint
    assert len(str(caught.value)) < 400


@given(st.text(max_size=30))
def test_any_text_is_an_error_or_content(text: str) -> None:
    for url in (f"http://{text}", f"https://{text}", text):
        with pytest.raises(MediaError):
            fetched(url, MediaOptions(), resolver=lambda _: ["127.0.0.1"])


def test_urls_can_be_disallowed() -> None:
    with pytest.raises(MediaError, match="URLs are not read") as caught:
        load_image(ImageContent(url="https://example.org/x"), MediaOptions(allow_urls=False))
    assert caught.value.limit == "allow_urls"


@pytest.mark.parametrize("path", ["sized/10001", "unsized/20000", "chunked/3000"])
def test_size_is_limited_while_reading(server: str, path: str) -> None:
    with pytest.raises(MediaError, match="more than 10,000 bytes") as caught:
        fetched(f"{server}/{path}")
    assert caught.value.limit == "max_image_bytes"


def test_size_limit_is_inclusive(server: str) -> None:
    assert len(fetched(f"{server}/unsized/500", max_bytes=500)) == 500
    with pytest.raises(MediaError):
        fetched(f"{server}/unsized/501", max_bytes=500)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("missing", "status 404"),
        ("sized/20", "received 10 bytes, expected 20"),
        ("cutchunk", "incomplete chunked read"),
        ("gzip", "encoded as 'gzip'"),
    ],
)
def test_other_answers_are_errors(server: str, path: str, what: str) -> None:
    with pytest.raises(MediaError, match=what):
        fetched(f"{server}/{path}")


@pytest.mark.parametrize("path", ["slow", "slowheaders"])
def test_time_is_limited_as_a_whole(server: str, path: str) -> None:
    options = MediaOptions(allow_private_addresses=True, url_timeout=0.3)
    with pytest.raises(MediaError, match=r"longer than 0\.3 seconds") as caught:
        fetched(f"{server}/{path}", options)
    assert caught.value.limit == "url_timeout"
    assert_threads_end()


def assert_threads_end() -> None:
    """Connections are shut down, which ends the threads that read them."""
    for thread in threading.enumerate():
        if thread.name == "proxy-engine-fetch":
            thread.join(2.0)
            assert not thread.is_alive()


def test_connection_after_the_time_limit_is_shut_down(server: str) -> None:
    """A host that is resolved late, and a server that sends a byte from time to time."""
    release = threading.Event()

    def resolver(host: str) -> list[str]:
        release.wait(10)
        return ["127.0.0.1"]

    options = MediaOptions(allow_private_addresses=True, url_timeout=0.3)
    try:
        with pytest.raises(MediaError, match="longer than"):
            fetched(f"{server}/slow", options, resolver=resolver)
    finally:
        release.set()
    assert_threads_end()


def test_server_that_says_nothing_is_left() -> None:
    options = MediaOptions(allow_private_addresses=True, url_timeout=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for scheme in ("http", "https"):
            with pytest.raises(MediaError, match="longer than"):
                fetched(f"{scheme}://127.0.0.1:{port}/", options)


def test_resolution_is_limited_in_time() -> None:
    release = threading.Event()

    def resolver(host: str) -> list[str]:
        release.wait(10)
        return []

    try:
        with pytest.raises(MediaError, match="longer than"):
            fetched("http://x.example/", MediaOptions(url_timeout=0.1), resolver=resolver)
    finally:
        release.set()


def test_errors_of_the_resolver_are_raised() -> None:
    def resolver(host: str) -> list[str]:
        raise socket.gaierror(8, "nodename not known")

    with pytest.raises(MediaError, match="nodename"):
        fetched("http://x.example/", resolver=resolver)
    with pytest.raises(MediaError, match="no address"):
        fetched("http://x.example/", resolver=lambda _: [])


def test_tls_needs_a_valid_certificate(server: str) -> None:
    """A server without TLS is an error, not a connection in the clear."""
    with pytest.raises(MediaError, match=r"(?i)ssl"):
        fetched(server.replace("http:", "https:") + "/image")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_certificate_is_checked_against_the_name_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is made to an address, which no certificate names."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=x.example", "-addext", "subjectAltName=DNS:x.example"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(
        ["openssl", "req", "-x509", *curve, *files, *names], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

        def image_of(host: str) -> bytes:
            url = f"https://{host}:{server.server_port}/image"
            return fetched(url, resolver=lambda _: ["127.0.0.1"])

        with pytest.raises(MediaError, match="CERTIFICATE_VERIFY_FAILED"):
            image_of("x.example")
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        trusted_certificates.cache_clear()
        assert image_of("x.example") == png()
        with pytest.raises(MediaError, match="CERTIFICATE_VERIFY_FAILED"):
            image_of("y.example")
        trusted_certificates.cache_clear()
        server.shutdown()
