// Exceptions of hooks: code, type, text.

#include <stdexcept>

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/provider/fallback.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

class OwnError final : public Error {
public:
    OwnError() : Error(ErrorCode::not_found, "own") {}
    int detail = 7;
};

RateLimited rate_limited() {
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    info.retry_after = 3.0;
    return RateLimited(std::move(info), "boom");
}

/// Returns options with a hook that throws `error`, by the hook's name.
template <class E>
std::vector<std::pair<std::string, AgentOptions>> throwing_hooks(const FauxProvider& faux,
                                                                 const E& error) {
    std::vector<std::pair<std::string, AgentOptions>> all;
    const auto add = [&](std::string name, auto member) {
        AgentOptions options{.model = faux.model()};
        member(options);
        all.emplace_back(std::move(name), std::move(options));
    };
    add("transform_context", [&](AgentOptions& options) {
        options.transform_context = [error](MessageList) -> MessageList { throw error; };
    });
    add("convert_to_llm", [&](AgentOptions& options) {
        options.convert_to_llm = [error](MessageList) -> MessageList { throw error; };
    });
    add("transform_system_prompt", [&](AgentOptions& options) {
        options.transform_system_prompt = [error](std::string) -> std::string { throw error; };
    });
    add("around_model_call", [&](AgentOptions& options) {
        options.around_model_call = [error](ModelRequest, ModelCallNext) -> Task<MessageStream> {
            throw error;
        };
    });
    add("after_model_response", [&](AgentOptions& options) {
        options.after_model_response = [error](AssistantMessage) -> std::optional<TurnAction> {
            throw error;
        };
    });
    add("should_stop_after_turn", [&](AgentOptions& options) {
        options.should_stop_after_turn = [error](ShouldStopAfterTurnContext&) -> bool {
            throw error;
        };
    });
    add("on_run_end", [&](AgentOptions& options) {
        options.on_run_end = [error](HookContext&) -> MessageList { throw error; };
    });
    add("on_payload", [&](AgentOptions& options) {
        options.on_payload = [error](JsonObject, Model) -> Task<std::optional<JsonObject>> {
            throw error;
        };
    });
    return all;
}

/// Runs an agent with each throwing hook; `check` receives the hook's name and the result.
template <class E, class Check>
void with_each_hook(const E& error, Check check) {
    FauxProvider faux;
    for (auto& [name, options] : throwing_hooks(faux, error)) {
        faux.set_responses({"fine"});
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt("hi"));
        EXPECT_EQ(result.outcome, RunOutcome::failed) << name;
        ASSERT_TRUE(result.failure) << name;
        const std::string text = agent.state().error_message.str();
        EXPECT_NE(text.find("hook " + name + " failed: "), std::string::npos) << text;
        EXPECT_EQ(text.find('@'), std::string::npos) << text;
        check(name, result);
    }
}

TEST(HookFailure, D40_AnErrorKeepsItsCodeAndNamesTheHook) {
    with_each_hook(Error(ErrorCode::permission_denied, "boom"), [](const std::string& name,
                                                                   const RunResult& result) {
        EXPECT_EQ(result.error().code(), ErrorCode::permission_denied) << name;
        EXPECT_EQ(std::string(result.error().what()), "hook " + name + " failed: boom");
    });
}

TEST(HookFailure, D40_AProviderErrorKeepsItsTypeAndItsInfo) {
    with_each_hook(rate_limited(), [](const std::string& name, const RunResult& result) {
        const auto* error = dynamic_cast<const RateLimited*>(result.failure.get());
        ASSERT_TRUE(error) << name;
        EXPECT_EQ(error->info().retry_after, 3.0) << name;
        EXPECT_EQ(std::string(error->what()), "hook " + name + " failed: boom");
    });
}

TEST(HookFailure, D40_ACheckpointerErrorOfAHookIsAnOutcomeNotAnException) {
    with_each_hook(StaleAppendError(ErrorCode::stale_append, "boom", "other"),
                   [](const std::string& name, const RunResult& result) {
                       const auto* error =
                           dynamic_cast<const StaleAppendError*>(result.failure.get());
                       ASSERT_TRUE(error) << name;
                       EXPECT_EQ(error->thread_id(), "other") << name;
                   });
}

TEST(HookFailure, D40_AnErrorTypeOfTheUserIsReturnedAsThrown) {
    with_each_hook(OwnError(), [](const std::string& name, const RunResult& result) {
        const auto* error = dynamic_cast<const OwnError*>(result.failure.get());
        ASSERT_TRUE(error) << name;
        EXPECT_EQ(error->code(), ErrorCode::not_found) << name;
        EXPECT_EQ(error->detail, 7) << name;
        EXPECT_STREQ(error->what(), "own") << name;
    });
}

TEST(HookFailure, D40_AnyOtherExceptionHasTheCodeUnknown) {
    with_each_hook(
        std::runtime_error("boom"), [](const std::string& name, const RunResult& result) {
            EXPECT_EQ(result.error().code(), ErrorCode::unknown) << name;
            EXPECT_EQ(std::string(result.error().what()), "hook " + name + " failed: boom");
        });
}

TEST(HookFailure, AnExceptionOfTheProviderIsNotThatOfTheHookAroundTheCall) {
    class Throwing final : public Provider {
    public:
        MessageStream stream(ModelRequest) override { throw Error(ErrorCode::connect, "no route"); }
    };
    auto provider = std::make_shared<Throwing>();
    Model model;
    model.id = "m";
    Agent agent({.model = BoundModel(provider, model),
                 .around_model_call = [](ModelRequest request, ModelCallNext next) {
                     return next(std::move(request));
                 }});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.error().code(), ErrorCode::connect);
    EXPECT_STREQ(result.error().what(), "no route");
}

TEST(HookFailure, D23_AFallbackChainDoesNotHopForAnExceptionOfTheUsersHook) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({"fine"});
    second.set_responses({"fine"});
    Agent agent({.model = FallbackBoundModel({first.model(), second.model()}),
                 .on_payload = [](JsonObject, Model) -> Task<std::optional<JsonObject>> {
                     throw rate_limited();
                 }});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_TRUE(dynamic_cast<const RateLimited*>(result.failure.get()));
    EXPECT_EQ(second.call_count(), 0u);
    EXPECT_TRUE(recorder.notices().empty());
}

}  // namespace
}  // namespace cubepi
