from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.errors import EmbedderMismatch
from memplugin.storage import migrations
from memplugin.storage.sql.maintenance import shown_url, survey
from memplugin.testing import HashingEmbedder

WORKSPACE = ("--workspace", "ws_8841")
LATER = MemoryContext("ws_8841", "s_later")


def ledger_url(folder: Path) -> str:
    return f"sqlite:///{folder}/ledger.db"


def dense_hits(memory: Memory, query: str) -> list[str]:
    found = memory.recall(query, context=LATER, k=1, policy="similarity")
    return [c.content for c in found.candidates if c.injected]


# ---------------------------------------------------------------- doctor


def test_a_well_store_has_no_problems(run, filled):
    done = run("doctor", store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert "hashing-64 64" in done.out
    assert "Problems: 0" in done.out


def test_the_doctor_counts_rows_and_workspaces(run, filled):
    health = run("doctor", "--json", store=filled.path).json
    assert health["statistics"]["rows"]["decisions"] == 3
    assert health["statistics"]["outbox"] == 0
    assert [(w["workspace_id"], w["records"], w["active"]) for w in health["workspaces"]] == [
        ("ws_8841", 5, 4),
        ("ws_2", 0, 0),
    ]
    assert (health["revision"], health["needed_revision"]) == (migrations.HEAD, migrations.HEAD)
    assert health["packages"]["chromadb"].startswith("1.")
    assert health["spans"] is None


def test_records_that_wait_are_a_problem(run, filled):
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        memory.backend.ledger.records.unindex_all()
    done = run("doctor", store=filled.path)
    assert done.code == 1
    assert "4 records wait for the vector index" in done.out
    assert "`memplugin reindex`" in done.out


def test_a_lost_index_folder_is_a_problem(run, filled):
    shutil.rmtree(filled.path / "chroma")
    done = run("doctor", "--json", store=filled.path)
    assert done.code == 1
    assert done.json["problems"] == [
        f"The index folder {filled.path / 'chroma'} is gone: run `memplugin reindex`."
    ]


def test_vectors_that_are_missing_are_a_problem(run, filled):
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        memory.backend.index.delete("ws_8841", [filled.cited])
    done = run("doctor", "--json", store=filled.path)
    assert done.code == 1
    assert done.json["problems"] == [
        "Of 4 records of workspace 'ws_8841' that should be in the index, 1 are not: "
        "run `memplugin reindex`."
    ]


def test_the_doctor_looks_at_a_store_that_this_release_can_not_open(run, filled, as_of_revision):
    as_of_revision(filled.path, "9999")
    done = run("doctor", "--json", store=filled.path)
    assert (done.code, done.json["revision"]) == (1, "9999")
    assert "upgrade memplugin" in done.json["problems"][0]


def test_a_password_is_not_shown():
    assert shown_url("postgresql+psycopg://me:secret@host/db") == (
        "postgresql+psycopg://me:***@host/db"
    )


# ---------------------------------------------------------------- reindex


def test_a_rebuilt_index_finds_what_the_old_one_found(run, filled, hashing):
    shutil.rmtree(filled.path / "chroma")
    done = run("reindex", "--json", store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert done.json == {"indexed": 4, "embedder": "hashing-64 64 c711c593"}
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        assert dense_hits(memory, "Who is the pack's auditor") == ["The pack's auditor is Moss."]


def test_another_model_takes_over_the_store(run, filled, hashing):
    assert run("reindex", "--embeddings", "hashing-32", store=filled.path).code == 0

    with Memory.open(filled.path, embeddings=HashingEmbedder(32)) as memory:
        assert dense_hits(memory, "Who is the pack's auditor") == ["The pack's auditor is Moss."]
    with pytest.raises(EmbedderMismatch):
        Memory.open(filled.path, embeddings=HashingEmbedder(64))
    assert run("doctor", store=filled.path).code == 0


@pytest.mark.parametrize(
    ("interrupted", "left_to"),
    [
        ("memplugin.storage.vector.chroma.ChromaIndex.clear", 64),
        ("memplugin.storage.sql.maintenance.Facts.replace", 64),
        ("memplugin.memory.index.embed", 32),
        ("memplugin.storage.sql.records.Records.mark_indexed", 32),
    ],
)
def test_a_change_of_model_that_is_interrupted_loses_nothing(
    run, filled, hashing, monkeypatch, interrupted, left_to
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(interrupted, interrupt)
        done = run("reindex", "--embeddings", "hashing-32", store=filled.path)
    assert (done.code, done.err) == (130, "memplugin: interrupted.\n")

    with Memory.open(filled.path, embeddings=HashingEmbedder(left_to)) as memory:
        assert memory.statistics()["outbox"] == 0
        assert dense_hits(memory, "Who is the pack's auditor") == ["The pack's auditor is Moss."]
    assert run("doctor", store=filled.path).code == 0


def test_a_model_that_can_not_be_loaded_leaves_everything_as_it_was(run, filled):
    done = run("reindex", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "'hashing-64' could not be loaded" in done.err
    assert "give --embeddings MODEL to change to another one" in done.err
    assert run("doctor", store=filled.path).code == 0


# ---------------------------------------------------------------- prune


def test_what_is_told_before_is_what_goes(run, filled):
    before = datetime(2026, 4, 1, tzinfo=UTC)
    with survey(ledger_url(filled.path)) as store:
        told = store.prunable(before, None)
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        assert memory.prune(before=before) == told
    assert told == {"turns": 2, "retrievals": 0, "decisions": 0}


def test_pruning_drops_turns_retrievals_and_decisions_and_keeps_records(run, filled):
    done = run("prune", "--older-than", "1h", "--yes", "--json", store=filled.path)
    assert done.code == 0
    assert done.json["dropped"] == {"turns": 2, "retrievals": 3, "decisions": 3}
    assert "2 turns, 3 retrievals, 3 decisions. Records stay." in done.err
    assert run("check", "auditor", *WORKSPACE, store=filled.path).code == 0
    assert run("check", "tax", *WORKSPACE, store=filled.path).code == 1


def test_pruning_one_workspace_leaves_the_others(run, filled):
    at = ("--older-than", "1h", "--yes", "--json")
    done = run("prune", *at, "--workspace", "ws_2", store=filled.path)
    assert done.json["dropped"] == {"turns": 0, "retrievals": 1, "decisions": 1}


def test_what_is_younger_stays(run, filled):
    done = run("prune", "--older-than", "9999w", "--yes", "--json", store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert sum(done.json["dropped"].values()) == 0


@pytest.mark.parametrize("age", ["90", "d", "-1d", "1.5d", "90 days", "", "999999w"])
def test_an_age_is_a_number_of_hours_days_or_weeks(run, filled, age):
    done = run("prune", f"--older-than={age}", "--yes", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "give a number of hours, days or weeks" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("prune", "--older-than", "1h"),
        ("forget", "{cited}", *WORKSPACE, "--reason", "asked"),
    ],
)
def test_nothing_goes_when_nobody_can_answer(run, filled, command):
    arguments = [part.format(cited=filled.cited) for part in command]
    done = run(*arguments, store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "give --yes" in done.err
    assert run("check", "tax", *WORKSPACE, store=filled.path).code == 0
    assert run("check", "basis gross", *WORKSPACE, store=filled.path).code == 0


@pytest.mark.parametrize(("said", "code", "left"), [("n\n", 1, 0), ("y\n", 0, 1)])
def test_a_person_is_asked_first(run, filled, monkeypatch, said, code, left):
    monkeypatch.setattr("memplugin.cli.store._watched", lambda: True)
    done = run("prune", "--older-than", "1h", store=filled.path, given=said)
    assert done.code == code
    assert "Drop them?" in done.err
    assert run("check", "tax", *WORKSPACE, store=filled.path).code == left


# ---------------------------------------------------------------- forget


def test_a_forgotten_record_is_nowhere_any_more(run, filled):
    arguments = ("forget", filled.cited, *WORKSPACE, "--reason", "asked", "--yes", "--json")
    done = run(*arguments, store=filled.path)
    assert (done.code, done.json["status"], done.json["content"]) == (0, "forgotten", "")
    assert "Prepare the board pack for April with the basis gross." in done.err

    task = run("task", "t_0417", *WORKSPACE, "--json", store=filled.path)
    assert "basis gross" not in task.out
    config = MemoryConfig(floor=-1.0)
    with Memory.open(filled.path, embeddings=HashingEmbedder(), config=config) as memory:
        assert memory.backend.index.fetch("ws_8841", [filled.cited]) == {}


def test_forgetting_again_changes_nothing(run, filled):
    arguments = ("forget", filled.cited, *WORKSPACE, "--reason", "asked", "--json")
    first = run(*arguments, "--yes", store=filled.path)
    again = run(*arguments, store=filled.path)
    assert (again.code, again.err) == (0, "")
    assert again.json["retired_at"] == first.json["retired_at"]


@pytest.mark.parametrize("workspace", ["ws_8841", "ws_2"])
def test_a_record_that_is_not_there_is_an_answer_of_no(run, filled, workspace):
    record = filled.cited if workspace == "ws_2" else "m_0"
    arguments = ("forget", record, "--workspace", workspace, "--reason", "asked", "--yes")
    done = run(*arguments, store=filled.path)
    assert (done.code, done.out) == (1, "")
    assert f"there is no record '{record}' in workspace '{workspace}'" in done.err


def test_forgetting_makes_no_task_of_its_own(run, filled):
    arguments = ("forget", filled.cited, *WORKSPACE, "--reason", "asked", "--yes")
    run(*arguments, store=filled.path)
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        assert set(memory.backend.ledger.history.tasks("ws_8841")) == {"t_0311", "t_0417", "t_0501"}


# ---------------------------------------------------------------- db


def test_a_store_of_this_release_needs_no_upgrade(run, filled):
    done = run("db", "upgrade", "--json", store=filled.path)
    assert (done.code, done.json) == (0, {"from": migrations.HEAD, "to": migrations.HEAD})


def test_an_empty_database_gets_its_tables(run, tmp_path):
    (tmp_path / "ledger.db").touch()
    done = run("db", "upgrade", store=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"The tables went from revision none to {migrations.HEAD}.\n"


def test_a_newer_store_is_not_downgraded(run, filled, as_of_revision):
    as_of_revision(filled.path, "9999")
    done = run("db", "upgrade", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "upgrade memplugin" in done.err


def test_everything_works_on_postgresql_and_a_chroma_server(
    run, new_postgres_url, chroma_server, hashing
):
    place = ("--store", new_postgres_url, "--index", chroma_server)
    assert run("check", "tax", *WORKSPACE, store=new_postgres_url).code == 2
    assert run("db", "upgrade", "--json", store=new_postgres_url).json["from"] is None
    with Memory.open(
        ledger_url=new_postgres_url, index_url=chroma_server, embeddings=HashingEmbedder()
    ) as memory:
        written = memory.write("The pack's auditor is Moss.", context=LATER)

    assert run(*place, "check", "auditor", *WORKSPACE, "--json").json["records"]
    assert run(*place, "task", "s_later", "--json").json["workspace_id"] == "ws_8841"
    assert run(*place, "doctor").code == 0
    assert run(*place, "reindex", "--json").json["indexed"] == 1
    gone = ("forget", str(written.record_id), *WORKSPACE, "--reason", "asked", "--yes")
    assert run(*place, *gone).code == 0
    assert run(*place, "check", "auditor", *WORKSPACE).code == 1
