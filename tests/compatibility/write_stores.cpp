// Writes the fixtures of this directory: write_stores DIRECTORY POSTGRES_THREADS POSTGRES_TAPES MYSQL_THREADS, the last three being
// empty databases. Compiled by `generate` in a checkout of the version that they are to come from, so it uses only what that version
// has.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/run.hpp>

namespace {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;
using cubepi::MessageList;
using cubepi::run;
using Texts = std::vector<std::string>;

cubepi::Message message(const char* json, const std::string& run_id) {
    JsonObject object = boost::json::parse(json).as_object();
    object["run_id"] = run_id;
    return cubepi::message_from_json(Json(std::move(object)));
}

MessageList conversation(const std::string& run_id, bool calls) {
    MessageList list;
    list.push_back(
        message(R"({"role": "user", "content": [{"type": "text", "text": "größe?"}]})", run_id));
    list.push_back(message(
        calls
            ? R"({"role": "assistant", "content": [{"type": "tool_call", "id": "call-1", "name": "rm",
                  "arguments": {"path": "a"}}], "stop_reason": "tool_use"})"
            : R"({"role": "assistant", "content": [{"type": "text", "text": "42"}], "stop_reason": "stop"})",
        run_id));
    return list;
}

cubepi::ClaimOwner owner() {
    cubepi::ClaimOwner owner;
    owner.owner_id = "writer";
    owner.description = "the writer of the fixtures";
    return owner;
}

/// "done" has a completed run; "asks" one that is suspended with a question.
template <class Store>
void write_threads(Store& store) {
    run(store.claim_run("done", "run-1", owner(), cubepi::ClaimKind::new_run));
    run(store.append(
        "done", conversation("run-1", false),
        cubepi::AppendOptions().claim("run-1", "writer").extra(JsonObject{{"title", "sizes"}})));
    run(store.complete_run("done", "run-1", "writer"));

    run(store.claim_run("asks", "run-2", owner(), cubepi::ClaimKind::new_run));
    run(store.append("asks", conversation("run-2", true),
                     cubepi::AppendOptions().claim("run-2", "writer")));
    cubepi::ApproveRequest approve;
    approve.tool_name = "rm";
    approve.tool_call_id = "call-1";
    approve.args["path"] = "a";
    cubepi::HitlRequest request;
    request.question_id = "call-1";
    request.thread_id = "asks";
    request.payload = approve;
    request.created_at = 1'700'000'000;
    run(store.save_pending_request("asks", "run-2", request));
    run(store.release_claim("asks", "run-2", "writer"));
}

bub::Envelope envelope(std::string text, std::string id) {
    bub::Envelope envelope = bub::Envelope(std::move(text)).on("chat", "1");
    if (!id.empty()) envelope.inbound_id = std::move(id);
    return envelope;
}

/// A message whose turn began and whose answer may have arrived, one that waits, and one that is finished.
void write_deliveries(bub::FileDeliveryLog& log) {
    const std::string first = run(log.receive(envelope("one", "u1"))).value();
    run(log.receive(envelope("two", "u2")));
    const std::string third = run(log.receive(envelope("three", "u3"))).value();
    run(log.begin(Texts(1, first)));
    run(log.intend(envelope("re: one", ""), Texts(1, first)));
    run(log.finish(Texts(1, third)));
    run(log.receive(envelope("cut off", "u4")));
}

/// A turn that is not closed. The result must live until the process ends.
std::shared_ptr<bub::TapeFork> write_open_turn(const std::shared_ptr<bub::TapeStore>& tapes) {
    const bub::Tape open(tapes, "open");
    run(open.append(bub::message_entry("user", "first")));
    run(open.append(bub::message_entry("user", "second")));
    bub::TapeForkOptions turn;
    turn.turn_id = "t1";
    std::shared_ptr<bub::TapeFork> fork = open.fork(turn);
    run(open.in(fork).append(bub::message_entry("user", "unclosed")));
    fork->add_text("half an ans");
    run(fork->flush());
    return fork;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
}

}  // namespace

int main(int, char** arguments) {
    const std::filesystem::path directory = arguments[1];
    std::filesystem::create_directories(directory / "tapes");
    cubepi::SQLiteOptions database;
    database.path = (directory / "threads.sqlite").string();
    {
        cubepi::SQLiteCheckpointer store(database);
        write_threads(store);
    }
    const auto tapes = std::make_shared<bub::FileTapeStore>(directory / "tapes");
    bub::TapeCheckpointer store(tapes);
    write_threads(store);
    const bub::Tape torn(tapes, "torn");
    run(torn.append(bub::message_entry("user", "first")));
    run(torn.append(bub::message_entry("user", "second")));
    {
        bub::FileDeliveryLogOptions options;
        options.directory = directory / "deliveries";
        bub::FileDeliveryLog log(options);
        write_deliveries(log);
    }
    const std::shared_ptr<bub::TapeFork> turn = write_open_turn(tapes);

    cubepi::PostgresOptions postgres;
    postgres.connection = arguments[2];
    (void)run(cubepi::apply_postgres_schema(postgres));
    // The tables of a dump, with 128 partitions, are long: this is what an operator of that version executed.
    write_text(directory / "postgres-threads.sql", cubepi::postgres_schema_sql());
    cubepi::PostgresCheckpointer postgres_store(postgres);
    write_threads(postgres_store);

    cubepi::PostgresOptions database_of_tapes;
    database_of_tapes.connection = arguments[3];
    (void)run(bub::apply_postgres_tape_schema(database_of_tapes));
    write_text(directory / "postgres-tapes.sql", bub::postgres_tape_sql());
    const auto postgres_tapes = std::make_shared<bub::PostgresTapeStore>(database_of_tapes);
    bub::TapeCheckpointer postgres_tape_threads(postgres_tapes);
    write_threads(postgres_tape_threads);
    const std::shared_ptr<bub::TapeFork> postgres_turn = write_open_turn(postgres_tapes);

    cubepi::MySQLOptions mysql;
    mysql.connection = arguments[4];
    (void)run(cubepi::apply_mysql_schema(mysql));
    cubepi::MySQLCheckpointer mysql_store(mysql);
    write_threads(mysql_store);
    // Without destructors, like a process that is killed: the turn stays open.
    _exit(0);
}
