// Writes the fixtures of this directory. Compiled by write_stores in a checkout of the version that they are to come from, so it uses
// only what that version has.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
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
    for (const char* name : {"torn", "open"}) {
        const bub::Tape tape(tapes, name);
        run(tape.append(bub::message_entry("user", "first")));
        run(tape.append(bub::message_entry("user", "second")));
    }
    {
        bub::FileDeliveryLogOptions options;
        options.directory = directory / "deliveries";
        bub::FileDeliveryLog log(options);
        write_deliveries(log);
    }
    const bub::Tape open(tapes, "open");
    bub::TapeForkOptions turn;
    turn.turn_id = "t1";
    const std::shared_ptr<bub::TapeFork> fork = open.fork(turn);
    run(open.in(fork).append(bub::message_entry("user", "unclosed")));
    fork->add_text("half an ans");
    run(fork->flush());
    // Without destructors, like a process that is killed: the turn stays open.
    _exit(0);
}
