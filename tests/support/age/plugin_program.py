"""A program `age-plugin-test` that speaks the protocol of age's plugins, and behaves as its keys say.

The data of a recipient or an identity is a word, the behaviour. The real age program runs it as well, which
shows that it speaks as plugins do. The file key is wrapped by a constant only.
"""

import stat
import sys
from pathlib import Path

from pinnace.age import bech32

_SCRIPT = """#!{python} -S
import base64, sys, time
sys.path.insert(0, {source!r})
from pinnace.age import bech32

def encode(data):
    return base64.b64encode(data).rstrip(b"=").decode()

def send(*arguments, body=b""):
    text = encode(body)
    lines = [text[at : at + 64] for at in range(0, len(text) + 1, 64)]
    sys.stdout.write("-> " + " ".join(arguments) + "\\n" + "\\n".join(lines) + "\\n")
    sys.stdout.flush()

def receive():
    arguments, text = sys.stdin.readline().split()[1:], ""
    while True:
        line = sys.stdin.readline().rstrip("\\n")
        text += line
        if len(line) < 64:
            return arguments, base64.b64decode(text + "=" * (-len(text) % 4))

def ask(*arguments, body=b""):
    send(*arguments, body=body)
    return receive()

def masked(key):
    return bytes(byte ^ 0x5A for byte in key)

words, keys, stanzas = [], [], []
while True:
    (kind, *rest), body = receive()
    if kind == "done":
        break
    if kind in ("add-recipient", "add-identity"):
        words.append(bech32.decode(rest[0])[1].decode())
    elif kind == "wrap-file-key":
        keys.append(body)
    elif kind == "recipient-stanza" and rest[1] == "test":
        stanzas.append(body)
for word in words:
    if word == "hang":
        time.sleep(600)
    elif word == "die":
        sys.exit(3)
    elif word == "garbage":
        print("hello\\x1b[2J")
        sys.exit()
    elif word == "endless":
        while True:
            ask("msg", body=b"again")
    elif word == "long":
        print("-> msg" + " x" * 100_000)
    elif word == "error":
        ask("error", "internal", body=b"no key is\\x1b[2J plugged in")
    elif word == "say":
        ask("msg", body=b"touch the key")
        ask("unknown-to-all", "1", body=b"x" * 100)
    elif word == "confirm":
        (answer, *chosen), _ = ask("confirm", encode(b"use it"), encode(b"stop"), body=b"use the key?")
        if chosen != ["yes"]:
            ask("error", "internal", body=b"not confirmed")
            continue
    elif word == "secret":
        (answer, *_), pin = ask("request-secret", body=b"PIN?")
        if (answer, pin) != ("ok", b"1234"):
            ask("error", "identity", "0", body=b"the PIN is wrong")
            continue
    if word == "error":
        continue
    for key in keys:
        if word == "label":
            ask("labels", "postquantum")
        kind = ["scrypt", "AAAA", "10"] if word == "scrypt" else ["test", "argument"]
        ask("recipient-stanza", "0", *kind, body=masked(key))
    for body in stanzas[:1]:
        ask("file-key", "0", body=masked(body))
send("done")
"""


def recipient_of(word: str) -> str:
    """The recipient with which the program behaves so."""
    return bech32.encode("age1test", word.encode())


def identity_of(word: str) -> str:
    """The identity with which the program behaves so."""
    return bech32.encode("age-plugin-test-", word.encode()).upper()


def install_plugin(folder: Path) -> None:
    """Put the program into a folder, which is to be on PATH."""
    source = Path(bech32.__file__).parents[2]
    program = folder / "age-plugin-test"
    program.write_text(_SCRIPT.format(python=sys.executable, source=str(source)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
