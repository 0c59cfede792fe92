// Answers that are shown while they are generated.

#include <bub/channel/telegram/telegram_test_support.hpp>

namespace bub::telegram {
namespace {

/// A model whose text the test writes.
class TypedSource final : public EventSource {
public:
    struct Script {
        std::vector<std::string> deltas;
        std::chrono::milliseconds pause;
        std::shared_ptr<cubepi::Clock> clock;
    };
    explicit TypedSource(Script script) : script_(std::move(script)) {}
    Task<std::optional<StreamEvent>> next() override {
        if (at_ == script_.deltas.size()) co_return std::nullopt;
        co_await script_.clock->sleep_for(script_.pause);
        std::optional<StreamEvent> event(StreamEvent::text(script_.deltas[at_++]));
        co_return event;
    }

private:
    Script script_;
    std::size_t at_ = 0;
};

class TelegramProgress : public ChannelFixture {
public:
    static Envelope message(std::int64_t chat) {
        Envelope made = Envelope("Hi").on("telegram", std::to_string(chat));
        made.session_id = "telegram:" + std::to_string(chat);
        return made;
    }
    /// Reads a turn's stream to its end, and returns its text.
    Task<std::string> generate(std::int64_t chat, std::vector<std::string> deltas,
                               std::chrono::milliseconds pause) {
        TypedSource::Script script;
        script.deltas = std::move(deltas);
        script.pause = pause;
        script.clock = clock;
        const Envelope inbound = message(chat);
        channel->begin_turn(inbound);
        EventStream stream = channel->stream_events(
            inbound, EventStream(std::make_unique<TypedSource>(std::move(script))));
        std::string text;
        while (std::optional<StreamEvent> event = co_await stream.next()) {
            text += event->delta();
            if (on_delta) on_delta();
        }
        co_return text;
    }
    /// Runs a whole turn.
    Task<> turn(std::int64_t chat, std::vector<std::string> deltas,
                std::chrono::milliseconds pause) {
        std::string text = co_await generate(chat, std::move(deltas), pause);
        co_await answer(chat, std::move(text));
        channel->end_turn(message(chat), nullptr);
        co_await clock->sleep_for(std::chrono::seconds(20));
    }
    static std::vector<std::string> words(std::size_t count) {
        std::vector<std::string> all;
        for (std::size_t number = 0; number < count; ++number)
            all.push_back("word **" + std::to_string(number) + "** ");
        return all;
    }
    std::function<void()> on_delta;
};

using Fixture = ChannelFixture;

TEST_F(TelegramProgress, QuickAnswer_IsOneMessage) {
    serve([this](Fixture&) { return turn(7, words(10), std::chrono::milliseconds(10)); });
    ASSERT_EQ(api.messages(7).size(), 1u);
    EXPECT_EQ(api.messages(7).front().edits, 0);
}

TEST_F(TelegramProgress, SlowAnswer_IsEditedAndEndsExact) {
    std::vector<std::string> seen;
    on_delta = [&] {
        for (const std::string& text : api.texts(7)) {
            if (seen.empty() || seen.back() != text) seen.push_back(text);
        }
    };
    serve([this](Fixture&) { return turn(7, words(100), std::chrono::milliseconds(200)); });
    ASSERT_EQ(api.messages(7).size(), 1u);
    const FakeMessage shown = api.messages(7).front();
    EXPECT_GE(shown.edits, 5);
    EXPECT_LE(shown.edits, 25);
    EXPECT_TRUE(shown.text.starts_with("word 0 word 1 "));
    EXPECT_TRUE(shown.text.ends_with("word 99"));
    EXPECT_EQ(shown.entities.size(), 100u);
    ASSERT_FALSE(seen.empty());
    // Incomplete texts are marked.
    for (const std::string& text : seen) EXPECT_TRUE(text.ends_with("\u2026")) << text;
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
}

/// A turn that writes a to-do list and then works, without text, until its run ends.
class ListSource final : public EventSource {
public:
    explicit ListSource(std::shared_ptr<cubepi::Clock> clock) : clock_(std::move(clock)) {}
    Task<std::optional<StreamEvent>> next() override {
        if (++at_ == 4) co_return std::nullopt;
        std::optional<StreamEvent> event(StreamEvent(event_kind::agent, {}));
        if (at_ == 1) {
            cubepi::ToolExecutionEndEvent end;
            end.tool_name = "write_todos";
            end.result = R"({"todos": [{"content": "read", "status": "completed"},
                                       {"content": "write", "status": "in_progress"}]})";
            event->agent_event = std::make_shared<const cubepi::AgentEvent>(std::move(end));
        } else if (at_ == 2) {
            co_await clock_->sleep_for(std::chrono::seconds(10));
        } else {
            event->agent_event =
                std::make_shared<const cubepi::AgentEvent>(cubepi::AgentEndEvent());
        }
        co_return event;
    }

private:
    std::shared_ptr<cubepi::Clock> clock_;
    int at_ = 0;
};

TEST_F(TelegramProgress, ListOfModel_IsShownUntilAnswer) {
    std::vector<std::string> seen;
    serve([&](Fixture&) -> Task<> {
        const Envelope inbound = message(7);
        channel->begin_turn(inbound);
        EventStream stream =
            channel->stream_events(inbound, EventStream(std::make_unique<ListSource>(clock)));
        std::optional<StreamEvent> event = co_await stream.next();
        while (event) event = co_await stream.next();
        seen = api.texts(7);
        co_await answer(7, "All done.");
        channel->end_turn(message(7), nullptr);
    });
    EXPECT_EQ(seen, std::vector<std::string>{"✓ read\n▸ write \u2026"});
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"All done."});
}

TEST_F(TelegramProgress, OutputDuringTurn_LeavesListOfModel) {
    std::vector<std::string> seen;
    serve([&](Fixture&) -> Task<> {
        const Envelope inbound = message(7);
        channel->begin_turn(inbound);
        EventStream stream =
            channel->stream_events(inbound, EventStream(std::make_unique<ListSource>(clock)));
        (void)co_await stream.next();
        (void)co_await stream.next();
        co_await answer(7, "A note of a plugin.");
        seen = api.texts(7);
        std::optional<StreamEvent> event = co_await stream.next();
        while (event) event = co_await stream.next();
        co_await answer(7, "All done.");
        channel->end_turn(message(7), nullptr);
    });
    EXPECT_EQ(seen, (std::vector<std::string>{"✓ read\n▸ write \u2026", "A note of a plugin."}));
    EXPECT_EQ(api.texts(7), (std::vector<std::string>{"All done.", "A note of a plugin."}));
}

TEST_F(TelegramProgress, Group_GetsFewerEdits) {
    serve([this](Fixture&) { return turn(-100, words(300), std::chrono::milliseconds(200)); });
    ASSERT_EQ(api.messages(-100).size(), 1u);
    EXPECT_LE(api.messages(-100).front().edits, 20);
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
}

TEST_F(TelegramProgress, LongAnswer_BecomesSeveralMessages) {
    std::vector<std::string> deltas;
    std::string whole;
    for (int line = 0; line < 300; ++line) {
        deltas.push_back("Paragraph " + std::to_string(line) + " with some *text* in it.\n\n");
        whole += "Paragraph " + std::to_string(line) + " with some text in it.\n\n";
    }
    serve([&](Fixture&) { return turn(7, deltas, std::chrono::milliseconds(100)); });
    std::string joined;
    for (const std::string& text : api.texts(7)) joined += text + "\n\n";
    EXPECT_EQ(joined, whole);
    EXPECT_GE(api.messages(7).size(), 3u);
    EXPECT_EQ(api.rejected, 0u) << api.last_rejection;
}

TEST_F(TelegramProgress, FaultsDuringProgress_DoNotDoubleTheAnswer) {
    for (const Fault fault :
         {Fault::cut_before, Fault::too_many, Fault::internal, Fault::garbage}) {
        for (const char* method : {"sendMessage", "editMessageText"}) {
            const std::size_t before = api.messages(7).size();
            api.fail(method, {fault});
            serve([this](Fixture&) { return turn(7, words(50), std::chrono::milliseconds(200)); });
            ASSERT_EQ(api.messages(7).size(), before + 1) << method << static_cast<int>(fault);
            EXPECT_TRUE(api.texts(7).back().ends_with("word 49"));
            EXPECT_TRUE(api.texts(7).back().starts_with("word 0 ")) << api.texts(7).back();
        }
    }
}

TEST_F(TelegramProgress, EditOfUnknownFate_IsRepeated) {
    api.fail("editMessageText", {Fault::cut_after, Fault::internal_after});
    serve([this](Fixture&) { return turn(7, words(50), std::chrono::milliseconds(200)); });
    ASSERT_EQ(api.messages(7).size(), 1u);
    EXPECT_TRUE(api.texts(7).back().ends_with("word 49"));
}

TEST_F(TelegramProgress, MessageDeletedByUser_IsSentAgain) {
    bool deleted = false;
    on_delta = [&] {
        if (deleted || api.messages(7).empty()) return;
        api.delete_message(api.messages(7).front().id);
        deleted = true;
    };
    serve([this](Fixture&) { return turn(7, words(50), std::chrono::milliseconds(200)); });
    EXPECT_TRUE(deleted);
    ASSERT_EQ(api.messages(7).size(), 1u);
    EXPECT_TRUE(api.texts(7).back().ends_with("word 49"));
}

TEST_F(TelegramProgress, FailedTurn_LeavesAnIncompleteAnswer) {
    serve([this](Fixture&) -> Task<> {
        (void)co_await generate(7, words(50), std::chrono::milliseconds(200));
        Envelope failure = message(7);
        failure.content = "An error occurred";
        failure.kind = std::string(envelope_kind::error);
        co_await channel->send(std::move(failure));
        channel->end_turn(message(7), std::make_exception_ptr(std::runtime_error("x")));
        co_await clock->sleep_for(std::chrono::seconds(20));
    });
    ASSERT_EQ(api.messages(7).size(), 2u);
    EXPECT_TRUE(api.texts(7).at(0).ends_with("\u2026"));
    EXPECT_EQ(api.texts(7).at(1), "An error occurred");
}

/// A log that processes share.
class SharedLog final : public MemoryDeliveryLog {
public:
    std::optional<std::chrono::nanoseconds> poll_interval() const override {
        return std::chrono::hours(1);
    }
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override {
        if (is_taken) throw SessionTakenError("another gateway sends it");
        co_await MemoryDeliveryLog::record(note, std::move(ids), std::move(detail));
    }

    bool is_taken = false;
};

TEST_F(TelegramProgress, D206_TakenAnswer_IsNotCompletedHere) {
    const auto log = std::make_shared<SharedLog>();
    serve([&](Fixture&) -> Task<> {
        for (const std::int64_t chat : {7, 8}) {
            std::string text = co_await generate(chat, words(50), std::chrono::milliseconds(200));
            Envelope whole = message(chat);
            whole.content = text + std::string(5'000, 'x');
            std::vector<std::string> none;
            std::string id = co_await log->intend(whole, std::move(none));
            const auto progress = std::make_shared<SendProgress>(log, std::move(id));
            log->is_taken = chat == 8;
            Task<> sending = channel->send_tracked(std::move(whole), progress);
            const cubepi::Outcome<> sent = co_await cubepi::outcome_of(std::move(sending));
            EXPECT_EQ(is_session_taken(sent.failure()), chat == 8);
            channel->end_turn(message(chat), sent.failure());
        }
    });
    EXPECT_EQ(api.texts(7).size(), 2u);
    EXPECT_TRUE(api.texts(7).back().ends_with("xxx"));
    ASSERT_EQ(api.texts(8).size(), 1u);
    EXPECT_TRUE(api.texts(8).front().ends_with("\u2026")) << "it was not edited";
}

TEST_F(TelegramProgress, AnswerReplacedByPlugin_IsNotShownTwice) {
    serve([this](Fixture&) -> Task<> {
        (void)co_await generate(7, words(50), std::chrono::milliseconds(200));
        Task<> answering = answer(7, "something else");
        co_await std::move(answering);
        channel->end_turn(message(7), nullptr);
        co_await clock->sleep_for(std::chrono::seconds(20));
    });
    EXPECT_EQ(api.texts(7), std::vector<std::string>{"something else"});
}

TEST_F(TelegramProgress, Progress_CanBeOff) {
    options.shows_progress = false;
    serve([this](Fixture&) { return turn(7, words(100), std::chrono::milliseconds(200)); });
    ASSERT_EQ(api.messages(7).size(), 1u);
    EXPECT_EQ(api.messages(7).front().edits, 0);
}

}  // namespace
}  // namespace bub::telegram
