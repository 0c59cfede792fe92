// Editors: lines of an editor that are malformed, or name sessions and requests that are not theirs.
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/acp/acp_test.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

using acp_test::ScriptedEditor;

/// Answers a prompt with its text.
class EchoSession final : public AcpSession {
public:
    EchoSession(std::shared_ptr<AcpEditor> editor, std::string id)
        : editor_(std::move(editor)), id_(std::move(id)) {}

    Task<AcpStop> prompt(AcpPrompt prompt) override {
        JsonObject update{{"sessionUpdate", "agent_message_chunk"}};
        update["content"] = JsonObject{{"type", "text"}, {"text", prompt.text}};
        editor_->update(id_, std::move(update));
        co_return AcpStop::end_turn;
    }
    void cancel() noexcept override {}
    Task<> close() override { co_return; }

private:
    std::shared_ptr<AcpEditor> editor_;
    std::string id_;
};

class EchoHost final : public AcpHost {
public:
    AcpAbilities abilities() const override {
        AcpAbilities abilities;
        abilities.version = "1";
        return abilities;
    }
    Task<std::shared_ptr<AcpSession>> create(std::shared_ptr<AcpEditor> editor, std::string id,
                                             AcpSetup) override {
        co_return std::make_shared<EchoSession>(std::move(editor), std::move(id));
    }
};

/// A value of any type; texts resemble the id of the session, but are another one.
Json hostile_value(std::mt19937_64& random, const std::string& session) {
    switch (random() % 9) {
        case 0: return nullptr;
        case 1: return static_cast<std::int64_t>(random());
        case 2: return JsonArray{JsonObject(), -1, true};
        case 3: return JsonArray{JsonObject{{"type", "text"}, {"text", "HOSTILE"}}};
        case 4: return JsonObject{{"sessionId", session + "0"}};
        case 5: return "/project";
        case 6: return Json("../" + session);
        case 7: return Json(session.substr(0, random() % session.size()));
        default: return Json(session + std::string(1, '\0'));
    }
}

std::string hostile_line(std::mt19937_64& random, const std::string& session, std::size_t number) {
    constexpr const char* methods[] = {"initialize",
                                       "session/new",
                                       "session/load",
                                       "session/resume",
                                       "session/list",
                                       "session/prompt",
                                       "session/close",
                                       "session/cancel",
                                       "session/set_mode",
                                       "session/set_config_option",
                                       "$/cancel_request",
                                       "authenticate",
                                       ""};
    JsonObject message{{"jsonrpc", "2.0"}};
    if (random() % 16 == 0) message["jsonrpc"] = hostile_value(random, session);
    if (random() % 4 != 0) message["id"] = "bad-" + std::to_string(number);
    if (random() % 16 == 0) message["id"] = hostile_value(random, session);
    if (random() % 5 != 0) {
        message["method"] = methods[random() % std::size(methods)];
        JsonObject params;
        for (const char* const key : {"sessionId", "cwd", "prompt", "mcpServers", "modeId", "id"})
            if (random() % 2 == 0) params[key] = hostile_value(random, session);
        message["params"] = random() % 8 == 0 ? hostile_value(random, session) : Json(params);
    } else {
        // An answer to a request that the agent has not sent.
        message[random() % 2 == 0 ? "result" : "error"] = hostile_value(random, session);
    }
    std::string line = boost::json::serialize(message);
    switch (random() % 12) {
        case 0: line.resize(random() % line.size()); break;
        case 1: line[random() % line.size()] = static_cast<char>(random()); break;
        case 2: line = "[" + line + "," + line + "]"; break;
        case 3: line = std::string(100'000, '['); break;
        default: break;
    }
    return line;
}

}  // namespace

TEST(EditorsAttack, HostileLines_ReachNoSession) {
    Row row("editors", "lines that are malformed, or name what is not theirs");
    std::mt19937_64 random = generator("lines of an editor");
    const auto script = [&](ScriptedEditor& editor) -> Task<> {
        const std::string session = co_await editor.open();
        std::multiset<std::string> answered;
        for (std::size_t i = rounds(3'000); i > 0; --i) {
            const std::string line = hostile_line(random, session, i);
            editor.send_line(line);
            const std::string text = "GOOD " + std::to_string(i);
            const std::int64_t id =
                editor.start("session/prompt", acp_test::prompt_json(session, text));
            editor.updates.clear();
            for (bool is_answered = false; !is_answered;) {
                RpcMessage message = co_await editor.next();
                is_answered = message.id == Json(id) && message.method.empty();
                if (message.id.is_string()) answered.insert(std::string(message.id.as_string()));
            }
            const bool is_shown = editor.text_of("agent_message_chunk") == text;
            row.attempt(is_shown && answered.count("bad-" + std::to_string(i)) <= 1, line);
        }
        // Which lines are answered depends on the random text.
        EXPECT_GT(answered.size(), 500U);
    };
    run(acp_test::with_editor(std::make_shared<EchoHost>(), script));
}

}  // namespace cubepi::attack
