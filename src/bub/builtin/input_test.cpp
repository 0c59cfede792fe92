// Inputs of the agent's turns: media of a message as parts of the prompt and in the model's request; and D42 for the pipeline: repeated
// deliveries of an inbound are one message of the user.

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/builtin/builtin_test_support.hpp>
#include <bub/builtin/recorded_reply.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {
namespace {

using cubepi::Message;
using cubepi::MessageList;

MediaItem item(MediaType type, std::string mime, std::string url) {
    MediaItem made;
    made.type = type;
    made.mime_type = std::move(mime);
    made.url = std::move(url);
    return made;
}

MediaItem fetched(MediaType type, std::string mime, std::optional<std::string> bytes) {
    MediaItem made = item(type, std::move(mime), "");
    made.fetch = [bytes = std::move(bytes)]() -> Task<std::optional<std::string>> {
        co_return bytes;
    };
    return made;
}

class Media : public testing::Test {
protected:
    Media() {
        FrameworkOptions options;
        options.workspace = "/";
        framework = std::make_unique<Framework>(std::move(options));
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back([this](const cubepi::ModelRequest& request) {
            asked = request.messages.back();
            return cubepi::faux_assistant_message("seen");
        });
        faux.set_responses(std::move(steps));
        BuiltinOptions builtin;
        builtin.model = faux.model("scripted");
        builtin.tape_store = std::make_shared<MemoryTapeStore>();
        builtin.with_user_skills = false;
        builtin.with_tools = false;
        framework->add(builtin_plugin(*framework, std::move(builtin)));
    }

    static Envelope with(std::vector<MediaItem> media) {
        Envelope message("look");
        message.channel = "chat";
        message.media = std::move(media);
        return message;
    }

    /// Returns the prompt of a message with these media.
    Prompt prompt(std::vector<MediaItem> media) {
        TurnState state;
        auto message = std::make_shared<Envelope>(with(std::move(media)));
        return cubepi::run(framework->build_prompt(std::move(message), "s", state));
    }

    void expect_parts(std::vector<MediaItem> media, std::string_view parts) {
        EXPECT_EQ(to_json(prompt(std::move(media))), cubepi::parse_json(parts));
    }

    std::unique_ptr<Framework> framework;
    cubepi::FauxProvider faux;
    std::optional<cubepi::Message> asked;
};

TEST_F(Media, ImagesAndVideos_FollowTheTextInOrder) {
    expect_parts({item(MediaType::video, "video/mp4", "https://example.org/v.mp4"),
                  fetched(MediaType::image, "image/png", "abc")},
                 R"([{"type": "text", "text": "look"},
                     {"type": "video_url", "video_url": {"url": "https://example.org/v.mp4"}},
                     {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}])");
}

TEST_F(Media, Audio_BecomesDataWithAFormat) {
    expect_parts({fetched(MediaType::audio, "audio/mpeg", "abc")},
                 R"([{"type": "text", "text": "look"},
                     {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}}])");
}

TEST_F(Media, AudioFormat_FollowsTheMimeType) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"audio/mpeg", "mp3"},  {"audio/mp3", "mp3"},
        {"audio/ogg", "ogg"},   {"audio/ogg; codecs=opus", "ogg"},
        {"audio/wav", "wav"},   {"audio/x-wav", "wav"},
        {"audio/flac", "flac"}, {"audio/x-flac", "flac"},
        {"audio/aiff", "aiff"}, {"audio/x-aiff", "aiff"},
        {"audio/mp4", "m4a"},   {"audio/x-m4a", "m4a"},
        {"audio/webm", "webm"}, {"AUDIO/MPEG", "mp3"},
        {"audio/amr", "amr"},   {"audio/", "unknown"}};
    for (const auto& [mime, format] : cases) {
        const Prompt made = prompt({fetched(MediaType::audio, mime, "abc")});
        ASSERT_TRUE(made.if_parts()) << mime;
        const JsonObject& part = made.if_parts()->back().as_object();
        EXPECT_EQ(part.at("input_audio").at("format"), Json(format)) << mime;
    }
}

TEST_F(Media, UnsupportedMedia_IsLeftOut) {
    MediaItem document = item(MediaType::document, "application/pdf", "");
    document.fetch = []() -> Task<std::optional<std::string>> {
        throw std::runtime_error("unexpected fetch");
    };
    const Prompt made = prompt({document, item(MediaType::audio, "audio/ogg", "https://e.org/a"),
                                fetched(MediaType::image, "image/png", std::nullopt),
                                item(MediaType::image, "image/png", "")});
    ASSERT_TRUE(made.if_text());
    EXPECT_EQ(*made.if_text(), "look");
}

TEST_F(Media, Model_ReceivesImageAndNoticeOfUnsupportedMedia) {
    std::vector<MediaItem> media = {fetched(MediaType::image, "image/png", "abc"),
                                    fetched(MediaType::audio, "audio/ogg", "abc"),
                                    item(MediaType::video, "video/mp4", "https://e.org/v")};
    const TurnResult result = cubepi::run(framework->process_inbound(with(std::move(media))));
    EXPECT_EQ(result.model_output, "seen");
    ASSERT_TRUE(asked && asked->user());
    const auto& content = asked->user()->content;
    ASSERT_EQ(content.size(), 4u);
    const auto* image = std::get_if<cubepi::ImageContent>(&content[1]);
    ASSERT_TRUE(image);
    EXPECT_EQ(image->media_type.str(), "image/png");
    EXPECT_NE(asked->text().find("input_audio"), std::string::npos);
    EXPECT_NE(asked->text().find("video_url"), std::string::npos);
}

TEST_F(Media, FailedFetch_FailsTheTurnAndIsReported) {
    MediaItem broken = item(MediaType::image, "image/png", "");
    broken.fetch = []() -> Task<std::optional<std::string>> {
        throw std::runtime_error("the file is gone");
    };
    std::vector<std::string> told;
    framework->add(Plugin{.name = "observer", .on_error = [&told](OnErrorCall& call) {
                              told.push_back(std::string(call.stage) + ": " + describe(call.error));
                          }});
    std::vector<MediaItem> media = {std::move(broken)};
    EXPECT_THROW(cubepi::run(framework->process_inbound(with(std::move(media)))),
                 std::runtime_error);
    EXPECT_EQ(told, std::vector<std::string>{"turn: the file is gone"});
    EXPECT_FALSE(asked);
}

TEST_F(Media, B11_MediaOfCommand_AreNotFetched) {
    Envelope command = with({item(MediaType::image, "image/png", "https://e.org/a")});
    command.content = ",help";
    command.from_operator = true;
    TurnState state;
    auto message = std::make_shared<Envelope>(std::move(command));
    const Prompt made = cubepi::run(framework->build_prompt(message, "s", state));
    ASSERT_TRUE(made.if_text());
    EXPECT_EQ(*made.if_text(), ",help");
    EXPECT_EQ(message->kind, envelope_kind::command);
}

class SameInput : public test::Builtin {
protected:
    static Envelope update(std::string id, std::string text = "What is it?") {
        Envelope message = Envelope(std::move(text)).on("mail", "chat");
        message.inbound_id = std::move(id);
        return message;
    }
    TurnResult take(Envelope message, bool streams = false) {
        return cubepi::run(framework->process_inbound(std::move(message), streams));
    }
    std::string tape_of_chat() const { return tape_name(framework->workspace(), "mail:chat"); }
    /// Returns all messages of the tape, including those before its last anchor.
    MessageList messages() { return agent_messages(tape("mail:chat")); }
    std::size_t inputs() {
        const MessageList all = messages();
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [](const Message& message) {
                return message.user() && !message.id().empty() && message.text() == "What is it?";
            }));
    }

    /// Creates the journal of a killed process: these messages, then displayed text that is in no message.
    void leave_turn(std::vector<Message> done, const std::string& text = {},
                    const std::string& run_id = "r1") {
        FileTapeOptions options;
        options.directory = root / "home" / "tapes";
        const Tape on(std::make_shared<FileTapeStore>(std::move(options)), tape_of_chat());
        cubepi::run(on.bootstrap());
        TurnTransactionOptions turn;
        turn.turn_id = "the turn of a dead process";
        const std::shared_ptr<TurnTransaction> fork = on.fork(std::move(turn));
        TapeCheckpointer memory(fork);
        for (Message& message : done) {
            MessageList one;
            one.push_back(std::move(message).with_run_id(run_id));
            (void)cubepi::run(memory.append(on.name(), std::move(one), cubepi::AppendOptions()));
        }
        fork->add_text(text);
        cubepi::run(fork->flush());
    }
    static Message question(std::string id = "mail:1") {
        return cubepi::user_message("What is it?", std::move(id));
    }
    static Message look() {
        cubepi::ContentList<cubepi::AssistantContent> content;
        content.emplace_back(cubepi::faux_text("Let me look."));
        content.emplace_back(faux_tool_call("look", JsonObject(), "c1"));
        return Message(faux_assistant_message(std::move(content), cubepi::stop_reason::tool_use));
    }
    static Message seen() {
        cubepi::ToolResultMessage result;
        result.tool_name = "look";
        result.tool_call_id = "c1";
        result.content.emplace_back(cubepi::TextContent{"a box"});
        return Message(std::move(result));
    }
    cubepi::FauxStep noting(std::string answer) {
        return cubepi::FauxStep([this, answer](const cubepi::ModelRequest& request) {
            asked = request.messages;
            return faux_assistant_message(answer);
        });
    }

    MessageList asked;  // the model's last request
};

TEST_F(SameInput, D291_InputWithAnswerId_IsNotAnAnswer) {
    std::vector<cubepi::FauxStep> steps;
    for (const char* answer : {"One.", "Two."}) steps.emplace_back(answer);
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1/answer", "FORGED")).model_output, "One.");
    EXPECT_EQ(take(update("1")).model_output, "Two.");
}

TEST_F(SameInput, D42_FinishedTurn_IsAnsweredAsBefore) {
    for (const bool streams : {false, true}) {
        SCOPED_TRACE(streams);
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back("A box.");
        if (!streams) add_builtin(std::move(steps));
        EXPECT_EQ(take(update("1"), streams).model_output, "A box.");
        const auto before = tape("mail:chat");
        const TurnResult again = take(update("1"), streams);
        EXPECT_EQ(again.model_output, "A box.");
        ASSERT_EQ(again.outbounds.size(), 1u);
        EXPECT_EQ(again.outbounds.front().content_text(), "A box.");
        EXPECT_EQ(faux.call_count(), 1u);
        EXPECT_EQ(tape("mail:chat"), before) << "nothing is stored twice";
    }
}

TEST_F(SameInput, D171_RepeatedCommand_HasTheRecordedOutput) {
    int calls = 0;
    extra_tools.push_back(cubepi::AgentTool("count", "Counts.", cubepi::AgentTool::no_parameters(),
                                            [&calls](JsonObject, cubepi::ToolContext&) {
                                                return cubepi::AgentToolResult(
                                                    std::to_string(++calls));
                                            }));
    add_builtin({});
    const auto command = [](std::string id) {
        Envelope message = update(std::move(id), ",count");
        message.from_operator = true;
        return message;
    };
    EXPECT_EQ(take(command("1")).model_output, "1");
    EXPECT_EQ(take(command("2")).model_output, "2");
    EXPECT_EQ(take(command("1")).model_output, "1");
    EXPECT_EQ(calls, 2);
}

TEST_F(SameInput, D171_RepeatedFailedCommand_FailsAsBefore) {
    add_builtin({});
    Envelope message = update("1", ",shell command='echo x >> count; exit 3'");
    message.from_operator = true;
    std::string first;
    for (int i = 0; i < 2; ++i) {
        try {
            (void)take(message);
            FAIL() << "the command fails";
        } catch (const cubepi::Error& error) {
            if (first.empty()) first = error.what();
            EXPECT_EQ(error.what(), first);
        }
    }
}

TEST_F(SameInput, D42_D87_IncompleteAnswer_IsReportedAgain) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back(faux_assistant_message("A b", cubepi::stop_reason::length));
    add_builtin(std::move(steps));
    for (int i = 0; i < 2; ++i) {
        const TurnResult result = take(update("1"));
        ASSERT_EQ(result.outbounds.size(), 2u);
        EXPECT_EQ(result.outbounds.back().kind, envelope_kind::error);
        EXPECT_NE(result.outbounds.back().content_text().find("cut off"), std::string::npos);
        EXPECT_EQ(result.outbounds.front().rest.at(finish_key), "cut_off");
    }
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST_F(SameInput, D42_D87_TurnKilledAtPause_IsContinued) {
    leave_turn({question(), Message(faux_assistant_message("I search.", "pause_turn"))});
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    const TurnResult result = take(update("1"));
    EXPECT_NE(result.model_output.find("A box."), std::string::npos) << result.model_output;
    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(asked.back().text(), "I search.");
    EXPECT_EQ(inputs(), 1u);
}

TEST_F(SameInput, D42_D119_TurnKilledAfterContinuation_IsContinued) {
    leave_turn({question(), Message(faux_assistant_message("Begun.")),
                cubepi::synthetic_user_message("not yet", "goal_continuation")});
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1")).model_output, "Begun.\n\nA box.");
    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(asked.back().text(), "not yet");
    EXPECT_EQ(inputs(), 1u);
    // Now it is over.
    EXPECT_EQ(take(update("1")).model_output, "Begun.\n\nA box.");
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST_F(SameInput, D42_AnotherInboundId_IsAnotherMessage) {
    std::vector<cubepi::FauxStep> steps;
    for (const char* answer : {"one", "two", "three", "four"}) steps.emplace_back(answer);
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1")).model_output, "one");
    EXPECT_EQ(take(update("2")).model_output, "two");
    Envelope unnamed = update("1");
    unnamed.inbound_id.reset();
    EXPECT_EQ(take(unnamed).model_output, "three");
    Envelope elsewhere = update("1");
    elsewhere.session_id = "mail:chat";
    elsewhere.channel = "chat";
    EXPECT_EQ(take(elsewhere).model_output, "four");
    EXPECT_EQ(inputs(), 4u);
}

TEST_F(SameInput, D42_CompletedSteps_AreRepeatedUnchanged) {
    leave_turn({question(), look(), seen(), Message(faux_assistant_message("A box."))});
    add_builtin({});
    EXPECT_EQ(take(update("1"), true).model_output, "Let me look.\n\nA box.") << "B19";
    EXPECT_EQ(faux.call_count(), 0u) << "its answer was kept, though its process did not end it";
    EXPECT_EQ(inputs(), 1u);
}

TEST_F(SameInput, D42_TurnInterruptedInItsTools_IsResumed) {
    leave_turn({question(), look()});
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box, I think."));
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1")).model_output, "Let me look.\n\nA box, I think.");
    EXPECT_TRUE(cubepi::is_legal_transcript(asked)) << "D1";
    EXPECT_NE(asked.back().text().find("unknown"), std::string::npos) << asked.back().text();
    EXPECT_EQ(inputs(), 1u);
    EXPECT_EQ(messages().back().run_id(), "r1") << "D40: a resumed run keeps its id";
    EXPECT_EQ(take(update("1")).model_output, "Let me look.\n\nA box, I think.");
    EXPECT_EQ(faux.call_count(), 1u);
}

TEST_F(SameInput, D42_InterruptedAnswer_IsRequestedAgain) {
    leave_turn({question()}, "A bo");
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1")).model_output, "A box.");
    ASSERT_FALSE(asked.empty());
    EXPECT_TRUE(asked.back().user()) << "a request ends with what is asked";
    EXPECT_EQ(asked.back().text(), "What is it?");
    EXPECT_EQ(inputs(), 1u);
    EXPECT_EQ(count(tape("mail:chat"), entry_kind::message), 3u) << "B9: the conversation is kept";
}

TEST_F(SameInput, D90_InterruptedInputBeforeAnother_GetsItsOwnRun) {
    leave_turn({question(), look(), seen()});
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back("Second.");
    steps.push_back(noting("A box."));
    steps.emplace_back("Third.");
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("2", "And now?")).model_output, "Second.");
    EXPECT_EQ(take(update("1")).model_output, "A box.");
    EXPECT_TRUE(cubepi::is_legal_transcript(asked));
    ASSERT_GE(asked.size(), 2u);
    EXPECT_EQ(asked[asked.size() - 2].text(), "Second.");
    EXPECT_TRUE(asked.back().text().starts_with("[This message is late"));
    EXPECT_TRUE(asked.back().text().ends_with("\nWhat is it?"));
    EXPECT_NE(messages().back().run_id(), "r1");
    EXPECT_EQ(take(update("3", "More?")).model_output, "Third.");
    EXPECT_EQ(take(update("1")).model_output, "A box.") << "it is answered";
    EXPECT_EQ(faux.call_count(), 3u);
}

/// A store on whose tape a run ends while a reader looks for its end, or on which a look fails.
class EndsRun final : public MemoryTapeStore {
public:
    /// Appended when a run is looked up.
    std::vector<TapeEntry> end;
    /// Thrown once when `failing` is looked up, after `successes` times; may be null.
    std::exception_ptr failure;
    TapeKey failing = TapeKey::run;
    int successes = 0;
    /// The number of the next read of the side state that fails; 0: none.
    int failing_read = 0;

    Task<JsonObject> read_state(std::string tape) override {
        if (failing_read > 0 && --failing_read == 0)
            throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "Too many open files");
        co_return co_await MemoryTapeStore::read_state(std::move(tape));
    }

    void fail(TapeKey key, int after) {
        failure = std::make_exception_ptr(
            cubepi::CheckpointerError(cubepi::ErrorCode::storage, "The database is away"));
        failing = key;
        successes = after;
    }

    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override {
        if (key == failing && failure && --successes < 0) {
            if (const std::exception_ptr thrown = std::exchange(failure, nullptr))
                std::rethrow_exception(thrown);
        }
        if (key == TapeKey::run && !end.empty()) {
            TapeAppend options;
            std::vector<TapeEntry> entries = std::move(end);
            end.clear();
            (void)co_await append(tape, std::move(entries), std::move(options));
        }
        std::optional<TapeEntry> found =
            co_await MemoryTapeStore::find(std::move(tape), key, std::move(value));
        co_return found;
    }
};

TEST_F(SameInput, D97_RunThatEndsMeanwhile_HasItsText) {
    MessageList answer;
    answer.push_back(Message(faux_assistant_message("A box.")).with_run_id("r1"));
    const auto other = std::make_shared<MemoryTapeStore>();
    TapeCheckpointer source(other);
    cubepi::run(source.append("w__s", std::move(answer), cubepi::AppendOptions()));
    std::vector<TapeEntry> end = cubepi::run(other->fetch("w__s", TapeQuery()));
    end.push_back(event_entry("cubepi.run", JsonObject{{"run_id", "r1"}, {"status", "complete"}}));
    const auto store = std::make_shared<EndsRun>();
    TapeCheckpointer memory(store);
    MessageList asked_messages;
    asked_messages.push_back(question().with_run_id("r1"));
    cubepi::run(memory.append("w__s", std::move(asked_messages), cubepi::AppendOptions()));
    store->end = std::move(end);
    const std::optional<RecordedReply> reply =
        cubepi::run(find_reply(Tape(store, "w__s"), "mail:1"));
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->answered);
    EXPECT_EQ(reply->text, "A box.");
}

TEST_F(SameInput, D90_TapeThatCannotBeOpened_HasNoMessage) {
    FileTapeOptions options;
    options.directory = root / "home" / "tapes";
    const std::string name = tape_of_chat();
    const std::filesystem::path obstacle = options.directory / (name + ".jsonl.turns");
    write(obstacle, "not a directory");
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    Envelope with_image = update("1");
    with_image.media.push_back(fetched(MediaType::image, "image/png", "abc"));
    EXPECT_THROW(take(with_image), cubepi::CheckpointerError);
    EXPECT_TRUE(messages().empty());
    std::filesystem::remove(obstacle);
    EXPECT_EQ(take(with_image).model_output, "A box.");
    ASSERT_TRUE(asked.back().user());
    EXPECT_EQ(asked.back().user()->content.size(), 2u) << "the image was lost";
    const MessageList all = messages();
    EXPECT_EQ(all[all.size() - 2].run_id(), all.back().run_id());
}

TEST_F(SameInput, D263_FirstReadFails_MessageIsNotRecorded) {
    const auto store = std::make_shared<EndsRun>();
    std::vector<cubepi::FauxStep> steps;
    steps.push_back(noting("A box."));
    BuiltinOptions options;
    options.tape_store = store;
    add_builtin(std::move(steps), std::move(options));
    Envelope with_image = update("1");
    with_image.media.push_back(fetched(MediaType::image, "image/png", "abc"));
    store->fail(TapeKey::message, 0);
    EXPECT_THROW(take(with_image), cubepi::CheckpointerError);
    EXPECT_FALSE(store->failure);
    EXPECT_TRUE(messages().empty());
    EXPECT_EQ(take(with_image).model_output, "A box.");
    ASSERT_TRUE(asked.back().user());
    EXPECT_EQ(asked.back().user()->content.size(), 2u) << "the image was lost";
    const MessageList all = messages();
    EXPECT_EQ(all[all.size() - 2].run_id(), all.back().run_id());
}

class SameCommand : public SameInput {
protected:
    SameCommand() {
        extra_tools.push_back(
            cubepi::AgentTool("count", "Counts.", cubepi::AgentTool::no_parameters(),
                              [this](JsonObject, cubepi::ToolContext&) {
                                  return cubepi::AgentToolResult(std::to_string(++calls));
                              }));
        BuiltinOptions options;
        options.tape_store = store;
        add_builtin({}, std::move(options));
    }
    static Envelope command() {
        Envelope message = update("1", ",count");
        message.from_operator = true;
        return message;
    }

    std::size_t recorded_messages() { return count(tape("mail:chat"), entry_kind::message); }

    std::shared_ptr<EndsRun> store = std::make_shared<EndsRun>();
    int calls = 0;
};

TEST_F(SameCommand, D263_AnyReadFails_MessageIsNotRecorded) {
    int failed = 0;
    for (int after = 0;; ++after) {
        store->fail(TapeKey::message, after);
        try {
            EXPECT_EQ(take(command()).model_output, "1");
            break;
        } catch (const cubepi::CheckpointerError&) {
            ++failed;
        }
        EXPECT_EQ(recorded_messages(), 0u) << "the model would read the command";
    }
    EXPECT_GE(failed, 2) << "a read of the kernel and one of the command";
    store->failure = nullptr;
    EXPECT_EQ(take(command()).model_output, "1");
    EXPECT_EQ(recorded_messages(), 0u) << "a repeated command is not recorded as a message";
    EXPECT_EQ(calls, 1);
}

TEST_F(SameCommand, D171_CommandWithRecordedMessage_IsNotRunAgain) {
    // An earlier version recorded the message of a turn whose tape could not be read.
    const Tape on(store, tape_of_chat());
    cubepi::run(on.bootstrap());
    TapeCheckpointer memory(store);
    MessageList recorded;
    recorded.push_back(cubepi::user_message(",count", "mail:1"));
    cubepi::run(memory.append(on.name(), std::move(recorded), cubepi::AppendOptions()));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(take(command()).model_output, "1");
    EXPECT_EQ(calls, 1);
}

TEST_F(SameInput, D90_RunThatFailsAfterItsAnswer_HasAnswered) {
    for (const bool has_run : {false, true}) {
        SCOPED_TRACE(has_run);
        make_framework(FrameworkOptions());
        const auto store = std::make_shared<EndsRun>();
        const Tape on(store, tape_of_chat());
        if (!has_run) {
            // An earlier version recorded the message of a turn whose tape could not be opened.
            cubepi::run(on.bootstrap());
            TapeCheckpointer memory(store);
            MessageList recorded;
            recorded.push_back(question());
            cubepi::run(memory.append(on.name(), std::move(recorded), cubepi::AppendOptions()));
        }
        std::vector<cubepi::FauxStep> steps;
        steps.emplace_back([store](const cubepi::ModelRequest&) {
            // The end of the run checks its claim, as the append of the answer has done.
            store->failing_read = 2;
            return faux_assistant_message("A box.");
        });
        BuiltinOptions options;
        options.tape_store = store;
        add_builtin(std::move(steps), std::move(options));
        const std::size_t calls = faux.call_count();
        EXPECT_THROW(take(update("1")), cubepi::CheckpointerError);
        EXPECT_EQ(store->failing_read, 0) << "the end of the run did not check its claim";
        const std::optional<RecordedReply> reply = cubepi::run(find_reply(on, "mail:1"));
        ASSERT_TRUE(reply);
        EXPECT_TRUE(reply->answered);
        EXPECT_EQ(reply->text, "A box.");
        for (const bool streams : {false, true}) {
            const TurnResult again = take(update("1"), streams);
            ASSERT_EQ(again.outbounds.size(), 1u);
            EXPECT_EQ(again.outbounds.front().content_text(), "A box.");
        }
        EXPECT_EQ(faux.call_count() - calls, 1u);
    }
}

TEST_F(SameInput, D90_AnswerOfAnotherRun_IsRepeated) {
    leave_turn({question()});
    leave_turn({Message(faux_assistant_message("A box."))}, {}, "r2");
    add_builtin({});
    const TurnResult result = take(update("1"));
    ASSERT_EQ(result.outbounds.size(), 1u);
    EXPECT_EQ(result.outbounds.front().content_text(), "A box.");
    EXPECT_EQ(faux.call_count(), 0u);
}

TEST_F(SameInput, D263_AnswerOfOlderRun_IsNotAdopted) {
    for (const bool has_subagent : {false, true}) {
        SCOPED_TRACE(has_subagent);
        make_framework(FrameworkOptions());
        std::filesystem::remove_all(root / "home");
        leave_turn({cubepi::user_message("Look!", "mail:0"), look()}, {}, "r0");
        if (has_subagent) {
            leave_turn({cubepi::user_message("Help", "inherited/1"),
                        Message(faux_assistant_message("Helped."))},
                       {}, "r1");
        }
        leave_turn({question()}, {}, "");
        leave_turn({seen(), Message(faux_assistant_message("I looked."))}, {}, "r0");
        std::vector<cubepi::FauxStep> steps;
        steps.push_back(noting("A box."));
        add_builtin(std::move(steps));
        for (const bool streams : {false, true}) {
            const TurnResult result = take(update("1"), streams);
            ASSERT_EQ(result.outbounds.size(), 1u);
            EXPECT_EQ(result.outbounds.front().content_text(), "A box.");
        }
        EXPECT_EQ(faux.pending_response_count(), 0u);
        ASSERT_FALSE(asked.empty());
        EXPECT_TRUE(asked.back().text().starts_with("[This message is late"));
    }
}

TEST_F(SameInput, D119_LateGoal_IsSet) {
    leave_turn({cubepi::user_message("/goal find a box", "mail:1"), look(), seen()});
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back("Second.");
    steps.push_back(noting("A box."));
    steps.emplace_back(faux_assistant_message(
        cubepi::faux_tool_call("structured_output",
                               {{"achieved", true}, {"reason", "it is there"}}),
        cubepi::stop_reason::tool_use));
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("2", "And now?")).model_output, "Second.");
    EXPECT_EQ(take(update("1", "/goal find a box")).model_output, "A box.");
    EXPECT_TRUE(asked.back().text().starts_with("[This message is late")) << asked.back().text();
    EXPECT_TRUE(asked.back().text().ends_with("]\nfind a box")) << asked.back().text();
    EXPECT_EQ(faux.pending_response_count(), 0u) << "the goal was evaluated";
}

TEST_F(SameInput, D90_InterruptedLateTurn_IsResumedUnlessAnotherFollows) {
    for (const bool another : {false, true}) {
        SCOPED_TRACE(another);
        make_framework(FrameworkOptions());
        std::filesystem::remove_all(root / "home");
        leave_turn({question(), look(), seen()});
        leave_turn({cubepi::user_message("And now?", "mail:2"),
                    Message(faux_assistant_message("Second."))},
                   {}, "r2");
        leave_turn({question("mail:1+"), look(), seen()}, {}, "r3");
        if (another) {
            leave_turn({cubepi::user_message("More?", "mail:3"),
                        Message(faux_assistant_message("Third."))},
                       {}, "r4");
        }
        std::vector<cubepi::FauxStep> steps;
        steps.push_back(noting("A box."));
        add_builtin(std::move(steps));
        EXPECT_EQ(take(update("1")).model_output, another ? "A box." : "Let me look.\n\nA box.");
        EXPECT_EQ(asked.back().user() != nullptr, another);
        EXPECT_EQ(inputs(), 2u) << "the third one is marked";
    }
}

TEST_F(SameInput, D90_LateImage_KeepsItsParts) {
    leave_turn({question()});
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back("Second.");
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("2", "And now?")).model_output, "Second.");
    Envelope late = update("1");
    late.media.push_back(fetched(MediaType::image, "image/png", "abc"));
    EXPECT_EQ(take(std::move(late)).model_output, "A box.");
    ASSERT_TRUE(asked.back().user());
    const auto& content = asked.back().user()->content;
    ASSERT_EQ(content.size(), 2u);
    EXPECT_TRUE(asked.back().text().starts_with("[This message is late"));
    EXPECT_TRUE(std::holds_alternative<cubepi::ImageContent>(content[1]));
}

TEST_F(SameInput, D42_FailedTurn_IsRetried) {
    std::vector<cubepi::FauxStep> steps;
    cubepi::ErrorInfo info;
    info.code = cubepi::ErrorCode::provider;
    steps.emplace_back(cubepi::faux_failure("overloaded", info));
    steps.push_back(noting("A box."));
    add_builtin(std::move(steps));
    EXPECT_THROW(take(update("1")), cubepi::Error);
    EXPECT_EQ(take(update("1")).model_output, "A box.");
    EXPECT_TRUE(asked.back().user());
    EXPECT_EQ(inputs(), 1u);
}

TEST_F(SameInput, D42_FullDisk_BeginsNoSecondTurn) {
    leave_turn({question(), look(), seen(), Message(faux_assistant_message("A box."))});
    auto full = std::make_unique<FullDisk>();
    BuiltinOptions options;
    // Space that is freed after the tape was read.
    options.configure = [&full](cubepi::AgentOptions&, const TurnContext&) { full.reset(); };
    add_builtin({}, std::move(options));
    try {
        take(update("1"));
        ADD_FAILURE() << "its first turn cannot be closed";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_full) << error.what();
    }
    full.reset();
    EXPECT_EQ(take(update("1")).model_output, "Let me look.\n\nA box.");
    EXPECT_EQ(faux.call_count(), 0u);
    EXPECT_EQ(inputs(), 1u);
}

TEST_F(SameInput, D42_MessageWithinAnotherTurn_SharesItsAnswer) {
    leave_turn({question(), look(), seen(), cubepi::user_message("Be quick!", "mail:2"),
                Message(faux_assistant_message("A box."))});
    add_builtin({});
    const TurnResult first = take(update("1"));
    EXPECT_EQ(first.model_output, "Let me look.\n\nA box.");
    const TurnResult second = take(update("2", "Be quick!"));
    EXPECT_TRUE(second.outbounds.empty()) << "it was sent with the first";
    EXPECT_EQ(faux.call_count(), 0u);
}

TEST_F(SameInput, D42_AnswerOfPlugin_IsRepeatedAsBefore) {
    add_builtin({});
    int asked_plugin = 0;
    framework->add(Plugin{.name = "own", .run_model = [&](RunModelCall&) {
                              if (++asked_plugin == 1) throw std::runtime_error("not now");
                              return "A box.";
                          }});
    EXPECT_THROW(take(update("1")), std::runtime_error);
    for (const bool streams : {false, true, false}) {
        EXPECT_EQ(take(update("1"), streams).model_output, "A box.");
        EXPECT_EQ(asked_plugin, 2);
        EXPECT_EQ(inputs(), 1u) << "B10: kept when the model failed, and not kept twice";
        EXPECT_EQ(count(tape("mail:chat"), entry_kind::message), 2u);
    }
}

TEST_F(SameInput, D42_SteeringMessage_IsKnownByItsInboundId) {
    std::vector<cubepi::FauxStep> steps;
    steps.emplace_back([](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        co_return faux_assistant_message("Let me see.");
    });
    steps.emplace_back([this](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        const auto inbox = co_await framework->steering_inbox();
        inbox->enqueue("mail:chat", update("3", "Be quick!"));
        co_return faux_assistant_message("It is");
    });
    steps.emplace_back("a box.");
    add_builtin(std::move(steps));
    EXPECT_EQ(take(update("1")).model_output, "Let me see.");
    EXPECT_EQ(take(update("2")).model_output, "It is\n\na box.");
    EXPECT_TRUE(take(update("3", "Be quick!")).outbounds.empty());
    EXPECT_EQ(faux.call_count(), 3u);
}

}  // namespace
}  // namespace bub
