"""Redaction of command lines."""

from __future__ import annotations

import pytest

from stepwhy.base.redaction.commands import redact_command as redact
from stepwhy.base.redaction.commands import shorten_path


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("--token=abc", "--token=[redacted]"),
        ("--hf_token=abc", "--hf_token=[redacted]"),
        ("HF_TOKEN=abc", "HF_TOKEN=[redacted]"),
        ("--db-password=a=b", "--db-password=[redacted]"),
        ("--wandb-api-key=0123", "--wandb-api-key=[redacted]"),
        ("hf_AbCdEfGhIjKlMnOp", "[redacted]"),
        ("sk-proj-0123456789abcdef", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("--init=hf_AbCdEfGhIjKlMnOp", "--init=[redacted]"),
        ("0123456789abcdef0123456789abcdef01234567", "[redacted]"),
        ("https://me:pw@host/data", "https://[redacted]@host/data"),
        ("s3://key:secret@bucket/x", "s3://[redacted]@bucket/x"),
        ("https://host/x?sig=abc&n=1", "https://host/x?sig=[redacted]&n=1"),
        ("/home/user/project/train.py", "project/train.py"),
        ("--data=/home/user/sets/cifar", "--data=sets/cifar"),
        ("file:///home/user/sets", "file://~/sets"),
        ("--pw=hunter7", "--pw=[redacted]"),
        ("--tokenizer=bert-base", "--tokenizer=bert-base"),
        ("--num-tokens=512", "--num-tokens=512"),
        ("--lr=0.1", "--lr=0.1"),
        ("train.py", "train.py"),
        ("/home/user/train.py", "~/train.py"),
        ("/root/train.py", "~/train.py"),
        ('{"lr": 1, "password": "a, b"}', '{"lr": 1, "password": "[redacted]"}'),
        ("{'db_password': 'x', 'n': 1}", "{'db_password': '[redacted]', 'n': 1}"),
        (r"{\"api_key\": \"x\", \"n\": 1}", r"{\"api_key\": \"[redacted]\", \"n\": 1}"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("Bearer abc.def", "Bearer [redacted]"),
        ("host=db;password=x;n=1", "host=db;password=[redacted];n=1"),
        ("optimizer.lr=0.1,max_tokens=5", "optimizer.lr=0.1,max_tokens=5"),
        ('{"tokenizer": "bert"}', '{"tokenizer": "bert"}'),
        ("resnet50-batch-256-adam-cosine-warmup-5-epochs-run-3",) * 2,
    ],
)
def test_one_argument(argument: str, written: str) -> None:
    assert redact([argument]) == [written]


def test_home_and_name_of_the_user_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/mnt/people/someone")
    monkeypatch.setenv("USER", "someone")
    command = [
        "/mnt/people/someone/train.py",
        "/scratch/someone/data",
        "--to=/x/someone",
        "someone",
    ]
    assert redact(command) == ["~/train.py", "[user]/data", "--to=x/[user]", "[user]"]


def test_value_after_a_secret_option_is_redacted() -> None:
    command = ["train.py", "--api-key", "X", "--lr", "1", "--token", "--fast"]
    assert redact(command) == [
        "train.py",
        "--api-key",
        "[redacted]",
        "--lr",
        "1",
        "--token",
        "--fast",
    ]


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("sshpass -p hunter7 ssh -p 22 node", "sshpass -p [redacted] ssh -p 22 node"),
        ("/usr/bin/sshpass -phunter7 ssh node", "bin/sshpass -p[redacted] ssh node"),
        ("mysql -u me -phunter7 data", "mysql -u me -p[redacted] data"),
        ("mysql -u me -p data", "mysql -u me -p data"),
        ("curl -u me:hunter7 x", "curl -u [redacted] x"),
        ("train.py -p 8080 -u me:7", "train.py -p 8080 -u me:7"),
        ("train.py --github-pat hunter7", "train.py --github-pat [redacted]"),
    ],
)
def test_passwords_in_options_of_known_programs(command: str, written: str) -> None:
    assert redact(command.split()) == written.split()


def test_password_may_contain_any_character() -> None:
    command = ["sshpass", "-p", 'it\'s; a \\ "secret"', "ssh", "node"]
    assert redact(command) == ["sshpass", "-p", "[redacted]", "ssh", "node"]


def test_inline_code_is_redacted() -> None:
    assert redact(["python", "-c", "login('me')"]) == ["python", "-c", "[code]"]


@pytest.mark.parametrize(
    ("path", "short"),
    [("/a/b/c.py", "b/c.py"), ("~/x/y/c.py", "y/c.py"), ("a/b/c.py", "a/b/c.py"), ("/", "/")],
)
def test_paths_keep_their_end(path: str, short: str) -> None:
    assert shorten_path(path) == short
