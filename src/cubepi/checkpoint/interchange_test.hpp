// A thread that this library and Python CubePi use in turn; run by tools/check-interchange.
#pragma once

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi {

/// Writes a thread, lets `command` read it and continue it with CubePi, and reads what that has written. Returns an exit status.
template <class Store>
int check_interchange(Store& store, const std::string& command) {
    const std::string thread_id = "interchange";
    ClaimOwner owner;
    owner.owner_id = "interchange";
    run(store.claim_run(thread_id, "ours", owner, ClaimKind::new_run));
    MessageList list = one(user("Größe \U0001f600?", "ours", "m1"));
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{"Looking."});
    ToolCall call;
    call.id = "c1";
    call.name = "look";
    call.arguments = JsonObject{{"b", 1}, {"a", JsonArray(1, Json(2))}};
    answer.content.emplace_back(std::move(call));
    answer.stop_reason = "tool_use";
    answer.run_id = "ours";
    list.push_back(std::move(answer));
    ToolResultMessage result;
    result.tool_call_id = "c1";
    result.tool_name = "look";
    result.content.emplace_back(TextContent{"seen"});
    result.run_id = "ours";
    list.push_back(std::move(result));
    AppendOptions options = AppendOptions().extra(JsonObject{{"note", JsonObject{{"z", 1}}}});
    run(store.append(thread_id, std::move(list), std::move(options)));
    run(store.complete_run(thread_id, "ours", owner.owner_id));
    HitlRequest request;
    request.question_id = "q1";
    request.payload = ConfirmRequest{.prompt = "Continue?"};
    run(store.save_pending_request(thread_id, "ours", std::move(request)));
    if (std::system(command.c_str()) != 0) return 1;
    const std::optional<CheckpointData> data = run(store.load(thread_id));
    const bool correct =
        data && data->messages.size() == 4 && data->messages[3].text() == "from CubePi" &&
        data->messages[3].run_id() == "theirs" && data->extra.contains("theirs") &&
        data->extra.contains("note") && run(store.is_run_complete(thread_id, "theirs")) &&
        run(store.load_pending_requests(thread_id)).empty();
    if (!correct) {
        std::cerr << "what CubePi has written was not read completely\n";
        return 1;
    }
    run(store.append(thread_id, one(user("and on", "r3", "m9")),
                     AppendOptions().expected_position(data->position)));
    std::cout << "CubePi and this library continue each other's thread\n";
    return 0;
}

}  // namespace cubepi
