"""A small server for long prompts: `POST /answer` filters, `POST /generate` is the model's own, many at a time.

    python long_prompt_server.py smollm2-135m --port 8000
    curl -d '{"text": "...", "question": "Who owns the mill?", "keep": 512}' localhost:8000/answer

One model serves all threads: a filtered request hangs nothing on it, so that plain requests beside it are what they are
alone. What is wrong with a request comes back as one line, status 400, and leaves nothing behind.
"""

import argparse
import contextlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from featlearn import gemfilter
from featlearn.errors import FeatlearnError

LARGEST = 16 * 2**20
"""Bytes of a request."""


def answer(model: Any, tokenizer: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The reply to a question about a text, from the tokens that were kept; to several questions, one reply each."""
    several = "questions" in asked
    replies = gemfilter.answer(
        model,
        tokenizer,
        asked["text"],
        asked["questions"] if several else [asked["question"]],
        keep=asked.get("keep", 1024),
        layer=asked.get("layer", "auto"),
        max_new_tokens=asked.get("max_new_tokens", 64),
        chat=gemfilter.Chat(asked.get("template", {}), asked.get("system", ""), tuple(asked.get("turns", ()))),
    )
    told = [{"reply": r.text, "tokens": r.tokens, "kept": r.kept, "seconds": r.first.seconds} for r in replies]
    return {"replies": told} if several else told[0]


def generate(model: Any, tokenizer: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """What the model says after a text: the plain one, or with `keep` from so many of its tokens."""
    ids = tokenizer(asked["text"], return_tensors="pt").input_ids.to(model.device)
    more = {"attention_mask": torch.ones_like(ids), "max_new_tokens": asked.get("max_new_tokens", 64)}
    block: Any = contextlib.nullcontext()
    if "keep" in asked:
        block = gemfilter.filtered(model, keep=asked["keep"], layer=asked.get("layer", "auto"))
    with block:  # for this thread alone
        found = model.generate(ids, do_sample=False, **more)
    return {"reply": tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True), "tokens": ids.shape[1]}


def one_line(error: Exception) -> str:
    """What an error says first, or its name."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


DOES = {"/answer": answer, "/generate": generate}


def server(model: Any, tokenizer: Any, port: int) -> ThreadingHTTPServer:
    """A server on this machine alone; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """One request, one JSON object."""
            try:
                size = int(self.headers.get("Content-Length", 0))
                if self.path not in DOES or not 0 < size <= LARGEST:
                    raise ValueError(f"POST a JSON object of at most {LARGEST} bytes to {' or '.join(DOES)}")
                asked = json.loads(self.rfile.read(size))
                if not isinstance(asked, dict):
                    raise TypeError(f"a JSON object is expected, not a {type(asked).__name__}")
                told, status = DOES[self.path](model, tokenizer, asked), 200
            except KeyError as e:
                told, status = {"error": f"{e.args[0]} is missing"}, 400
            except (FeatlearnError, ValueError, TypeError, AttributeError) as e:
                told, status = {"error": one_line(e)}, 400
            except Exception as e:  # of the model or this server: one request fails, not the connection
                told, status = {"error": one_line(e)}, 500
            data = json.dumps(told).encode()
            with contextlib.suppress(ConnectionError):  # whoever asked has gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            """Requests are not logged: they hold texts of users."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Load the model, serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a name of `featlearn data list`, a folder, a .gguf file or a hub id")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    with server(*gemfilter.load_model(options.model), options.port) as running:
        print(f"http://127.0.0.1:{running.server_address[1]}", flush=True)
        running.serve_forever()


if __name__ == "__main__":
    main()
