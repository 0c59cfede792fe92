// Media of a message: parts of the prompt, and their form in the model's request.

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {
namespace {

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

TEST_F(Media, ImagesAndVideosBecomePartsBehindTheTextInTheirOrder) {
    expect_parts({item(MediaType::video, "video/mp4", "https://example.org/v.mp4"),
                  fetched(MediaType::image, "image/png", "abc")},
                 R"([{"type": "text", "text": "look"},
                     {"type": "video_url", "video_url": {"url": "https://example.org/v.mp4"}},
                     {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}])");
}

TEST_F(Media, AudioBecomesDataWithAFormat) {
    expect_parts({fetched(MediaType::audio, "audio/mpeg", "abc")},
                 R"([{"type": "text", "text": "look"},
                     {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}}])");
}

TEST_F(Media, TheFormatOfAudioFollowsItsMimeType) {
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

TEST_F(Media, WhatNoModelTakesIsLeftOut) {
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

TEST_F(Media, TheModelReceivesTheImageAndANoticeOfUnsupportedMedia) {
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

TEST_F(Media, AFetchThatFailsFailsTheTurnAndIsTold) {
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

TEST_F(Media, B11_ACommandsMediaAreNotLookedAt) {
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

}  // namespace
}  // namespace bub
