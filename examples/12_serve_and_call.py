"""Serve a model and call it as other programs do: HTTP and JSON, nothing else.

python examples/12_serve_and_call.py [MODEL]      # by default the one of 02_pretrain.py
"""

import json
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
SERVER = [sys.executable, "-m", "unmask", "serve", f"mundo={MODEL}", "--port", "0", "--json", "--quiet"]


def ask(server: str, route: str, body: dict[str, Any]) -> Any:
    """Send JSON, get JSON."""
    with closing(HTTPConnection(server, timeout=60)) as connection:
        connection.request("POST", route, json.dumps(body), {"content-type": "application/json"})
        return json.load(connection.getresponse())


def main() -> None:
    with subprocess.Popen(SERVER, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())  # one line, when the models are loaded
            server = urlsplit(ready["url"]).netloc
            print("models:", [model["name"] for model in ready["models"]])

            for found in ask(server, "/fill-mask", {"inputs": "O banco guardou o [MASK] de Ana."})[:3]:
                print(f"  {found['score']:.2f} {found['sequence']}")

            texts = ["O gato dorme no telhado.", "O cão dorme no telhado.", "O banco abriu a conta de Ana."]
            vectors = ask(server, "/v1/embeddings", {"model": "mundo", "input": texts})  # as OpenAI's clients
            print(len(vectors["data"]), "vectors of", len(vectors["data"][0]["embedding"]), "numbers")

            body = {"inputs": {"source_sentence": texts[0], "sentences": texts[1:]}}
            print("cosines with the first:", ask(server, "/similarity", body))
        finally:
            process.terminate()  # it answers what it has accepted, and ends


if __name__ == "__main__":
    main()
