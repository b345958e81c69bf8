"""One signed request to an object server that dyno starts: for its bucket, its proof, its consent, and power cuts.

The module supports only the needs of drivers: path addressing, no query, a signed payload. The data plane signs the
load.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import quote

from serverdyno.plan.protocols.access import US_EAST_1, AccessKey

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 << 20
ALGORITHM = "AWS4-HMAC-SHA256"


class ObjectClient:
    """A kept-alive connection to an object server. If `key` is None, requests are anonymous."""

    def __init__(self, host: str, port: int, key: AccessKey | None, timeout_s: float = TIMEOUT_S) -> None:
        from http.client import HTTPConnection  # noqa: PLC0415 (it imports ssl, which a list of servers does not need)

        self._connection = HTTPConnection(host, port, timeout=timeout_s)
        self._place = f"{host}:{port}"
        self._key = key

    def __enter__(self) -> ObjectClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return the status and the body of the answer.

        Raises OSError, including for an answer that is not HTTP or ends early.
        """
        from http.client import HTTPException, IncompleteRead  # noqa: PLC0415

        path = quote(path)
        headers = {
            "Host": self._place,
            **(signature(self._key, method, path, self._place, body) if self._key else {}),
        }
        try:
            self._connection.request(method, path, body or None, headers)
            answer = self._connection.getresponse()
            content = answer.read(MAX_ANSWER_BYTES)
            # With a limit, `read` returns a body that ends before its Content-Length instead of raising an error.
            if answer.length and len(content) < MAX_ANSWER_BYTES:
                raise IncompleteRead(content, answer.length)
            return answer.status, content
        except HTTPException as error:
            self._connection.close()
            raise OSError(f"{self._place}: {error!r}") from error
        except OSError:
            self._connection.close()
            raise


def signature(key: AccessKey, method: str, path: str, host: str, body: bytes) -> dict[str, str]:
    """Return the headers that sign a request now (Signature Version 4). `path` is encoded, without a query."""
    key_id, secret, token = key
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
    if token is not None:
        signed["x-amz-security-token"] = token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = [moment[:8], US_EAST_1, "s3", "aws4_request"]
    text = "\n".join([ALGORITHM, moment, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    signing = f"AWS4{secret}".encode()
    for part in scope:
        signing = hmac.digest(signing, part.encode(), "sha256")
    proof = hmac.digest(signing, text.encode(), "sha256").hex()
    credential = f"{key_id}/{'/'.join(scope)}"
    authorization = f"{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={proof}"
    return {
        **{name: value for name, value in signed.items() if name != "host"},
        "Authorization": authorization,
    }
