#include <cubepi/provider/openai_images.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

/// A provider with scripted answers, and all that it told.
struct Studio {
    explicit Studio(std::vector<MemoryResponse> answers, OpenAIImagesOptions options = {})
        : transport(std::make_shared<MemoryTransport>(std::move(answers), clock)),
          provider(with_key(std::move(options))) {
        Runtime made;
        made.clock = clock;
        runtime = std::make_shared<const Runtime>(std::move(made).with_transport(transport));
    }
    static OpenAIImagesOptions with_key(OpenAIImagesOptions options) {
        options.api_key = "sk-secret-key";
        return options;
    }
    ImagesOptions options() {
        return ImagesOptions().runtime(runtime).on_event(
            [this](const ImagesEvent& event) { events.push_back(event); });
    }
    AssistantImages draw(ImagesContext context, ImagesModel model) {
        return testing::run_advancing(
            *clock, provider.generate_images(std::move(model), std::move(context), options()));
    }
    AssistantImages draw(ImagesContext context) {
        return draw(std::move(context), provider.model("gpt-image-2"));
    }
    Json sent(std::size_t at = 0) const {
        return boost::json::parse(transport->requests().at(at).body);
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MemoryTransport> transport;
    OpenAIImagesProvider provider;
    std::shared_ptr<const Runtime> runtime;
    std::vector<ImagesEvent> events;
};

ImagesContext teapot() {
    ImagesContext context;
    context.prompt = "A teapot";
    return context;
}

constexpr const char* one_image =
    R"({"created":1,"data":[{"b64_json":"QUJD","revised_prompt":"A nice teapot"}],)"
    R"("output_format":"webp","size":"1024x1024",)"
    R"("usage":{"input_tokens":10,"output_tokens":200,"total_tokens":210}})";

MemoryResponse json(std::string body, int status = 200) {
    return MemoryResponse(status, std::move(body)).with_header("content-type", "application/json");
}

std::vector<MemoryResponse> answers(MemoryResponse one) {
    std::vector<MemoryResponse> all;
    all.push_back(std::move(one));
    return all;
}

TEST(Images, Text_IsDrawn) {
    Studio studio(answers(json(one_image)));
    ImagesContext context = teapot();
    context.size = "1024x1024";
    context.n = 1;
    context.quality = ImageQuality::high;
    context.output_format = ImageFormat::webp;
    context.extra["moderation"] = "low";
    const AssistantImages drawn = studio.draw(context);
    ASSERT_EQ(drawn.images().size(), 1U);
    EXPECT_EQ(drawn.images()[0]->source, "QUJD");
    EXPECT_EQ(drawn.images()[0]->media_type, "image/webp");
    EXPECT_EQ(drawn.usage->output_tokens, 200);
    EXPECT_EQ(drawn.metadata.at("revised_prompts"), boost::json::parse(R"(["A nice teapot"])"));
    EXPECT_FALSE(drawn.aborted());
    const HttpRequest request = studio.transport->requests().at(0);
    EXPECT_EQ(request.url, "https://api.openai.com/v1/images/generations");
    EXPECT_EQ(request.headers.get("authorization"), "Bearer sk-secret-key");
    EXPECT_EQ(request.body,
              R"({"model":"gpt-image-2","prompt":"A teapot","size":"1024x1024","n":1,)"
              R"("quality":"high","output_format":"webp","moderation":"low"})");
}

TEST(Images, D14_UnsupportedOptions_AreReportedAndNotSent) {
    Studio studio(answers(json(one_image)));
    ImagesContext context = teapot();
    context.seed = 7;
    context.negative_prompt = "spoons";
    studio.draw(context);
    EXPECT_EQ(studio.transport->requests().at(0).body,
              R"({"model":"gpt-image-2","prompt":"A teapot"})");
    ASSERT_EQ(studio.events.size(), 2U);
    EXPECT_EQ(studio.events[0].notice.code, "request_changed");
    EXPECT_EQ(studio.events[0].notice.details.at("field"), Json("seed"));
}

TEST(Images, CompatibleEndpoints_HaveTheirOwnFields) {
    OpenAIImagesOptions options;
    options.base_url = "https://images.example/v1/";
    options.capability.size_kind = ImagesCapabilityDescriptor::SizeKind::width_height;
    options.capability.seed_field = "seed";
    options.capability.steps_field = "num_inference_steps";
    options.capability.response_format_field = "response_format";
    options.capability.extra_payload["safe"] = true;
    Studio studio(answers(json(R"({"data":[{"url":"https://cdn.example/1.png"}]})")), options);
    ImagesContext context = teapot();
    context.size = "640x480";
    context.seed = 7;
    context.steps = 20;
    const AssistantImages drawn = studio.draw(context);
    EXPECT_EQ(drawn.images().at(0)->source, "https://cdn.example/1.png");
    EXPECT_EQ(boost::json::serialize(studio.sent()),
              R"({"model":"gpt-image-2","prompt":"A teapot","width":640,"height":480,"seed":7,)"
              R"("num_inference_steps":20,"response_format":"b64_json","safe":true})");
    context.size = "wide";
    EXPECT_THROW(studio.draw(context), Error);
}

TEST(Images, InputImages_AreEdited) {
    Studio studio(answers(json(one_image)));
    ImagesContext context = teapot();
    context.input_images.push_back(ImageContent{.source = "QUJD", .media_type = "image/jpeg"});
    std::vector<JsonObject> seen;
    studio.provider.subscribe_request(
        [&](const JsonObject& payload, const ImagesModel&) { seen.push_back(payload); });
    studio.draw(context);
    const HttpRequest request = studio.transport->requests().at(0);
    EXPECT_EQ(request.url, "https://api.openai.com/v1/images/edits");
    const std::string type(request.headers.get("content-type"));
    const std::string boundary = type.substr(type.find("boundary=") + 9);
    EXPECT_EQ(request.body,
              "--" + boundary +
                  "\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\ngpt-image-2\r\n--" +
                  boundary +
                  "\r\ncontent-disposition: form-data; name=\"prompt\"\r\n\r\nA teapot\r\n--" +
                  boundary +
                  "\r\ncontent-disposition: form-data; name=\"image\"; "
                  "filename=\"image-1.jpeg\"\r\ncontent-type: image/jpeg\r\n\r\nABC\r\n--" +
                  boundary + "--\r\n");
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].at("image"), boost::json::parse(R"(["image/jpeg, 3 bytes"])"));
}

TEST(Images, Misuse_IsRefusedBeforeSending) {
    OpenAIImagesOptions options;
    options.capability.edits = false;
    Studio studio({}, options);
    EXPECT_THROW(studio.draw(ImagesContext()), Error);
    ImagesContext edit = teapot();
    edit.input_images.push_back(ImageContent{.source = "QUJD"});
    EXPECT_THROW(studio.draw(edit), Error);
    Studio other({});
    edit.input_images.push_back(ImageContent{.source = "https://x/y.png"});
    EXPECT_THROW(other.draw(edit), Error);
    ImagesModel small = other.provider.model("m");
    small.max_input_images = 1;
    EXPECT_THROW(other.draw(edit, small), Error);
    EXPECT_TRUE(studio.transport->requests().empty());
    EXPECT_TRUE(other.transport->requests().empty());
}

TEST(Images, Sketches_AreShownBeforeTheImage) {
    Studio studio(answers(
        MemoryResponse(200)
            .with_header("content-type", "text/event-stream")
            .with_event(R"({"type":"image_generation.partial_image","b64_json":"AA==",)"
                        R"("partial_image_index":0,"output_format":"png"})")
            .with_event(R"({"type":"image_generation.partial_image","b64_json":"AQ==",)"
                        R"("partial_image_index":1,"output_format":"png"})")
            .with_event(R"({"type":"image_generation.completed","b64_json":"QUJD",)"
                        R"("output_format":"png","usage":{"input_tokens":1,"output_tokens":2}})")
            .in_pieces_of(7)));
    ImagesOptions options = studio.options().partial_images(2);
    const AssistantImages drawn = run(
        studio.provider.generate_images(studio.provider.model("gpt-image-2"), teapot(), options));
    EXPECT_EQ(studio.sent().at("stream"), Json(true));
    EXPECT_EQ(studio.sent().at("partial_images"), Json(2));
    ASSERT_EQ(studio.events.size(), 2U);
    EXPECT_EQ(studio.events[1].index, 1);
    EXPECT_EQ(studio.events[1].image.source, "AQ==");
    ASSERT_EQ(drawn.images().size(), 1U);
    EXPECT_EQ(drawn.images()[0]->source, "QUJD");
    EXPECT_EQ(drawn.usage->output_tokens, 2);
}

TEST(Images, D15_Failures_AreRetriedWithAnEventEach) {
    std::vector<MemoryResponse> script;
    script.push_back(json(R"({"error":{"message":"busy"}})", 503));
    script.push_back(
        json(R"({"error":{"message":"slow down"}})", 429).with_header("retry-after", "3"));
    script.push_back(json(one_image));
    Studio studio(std::move(script));
    EXPECT_EQ(studio.draw(teapot()).images().size(), 1U);
    EXPECT_EQ(studio.transport->requests().size(), 3U);
    ASSERT_EQ(studio.events.size(), 2U);
    EXPECT_EQ(studio.events[1].notice.code, "retry");
    EXPECT_EQ(studio.events[1].notice.details.at("delay_ms"), Json(3000));
}

TEST(Images, D15_FailureAfterSketch_IsNotRetried) {
    Studio studio(
        answers(MemoryResponse(200)
                    .with_header("content-type", "text/event-stream")
                    .with_event(R"({"type":"image_generation.partial_image","b64_json":"AA=="})")));
    ImagesOptions options = studio.options().partial_images(1);
    EXPECT_THROW(
        run(studio.provider.generate_images(studio.provider.model("m"), teapot(), options)),
        ProviderError);
    EXPECT_EQ(studio.transport->requests().size(), 1U);
}

template <class E>
void expect_failure(MemoryResponse answer, ErrorCode code) {
    Studio studio(answers(std::move(answer)));
    std::size_t told = 0;
    studio.provider.subscribe_response([&](const ImagesOutcome& outcome, const ImagesModel&) {
        told += outcome.failure && !outcome.images ? 1 : 0;
    });
    try {
        studio.draw(teapot());
        FAIL() << "no failure of code " << to_string(code);
    } catch (const E& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_EQ(std::string(error.what()).find("sk-secret-key"), std::string::npos);
    }
    EXPECT_EQ(told, 1U);
}

TEST(Images, Failures_AreTyped) {
    expect_failure<ProviderError>(
        json(R"({"error":{"message":"bad key sk-secret-key","code":"invalid_api_key"}})", 401),
        ErrorCode::auth);
    expect_failure<ProviderError>(
        json(
            R"({"error":{"message":"no","code":"moderation_blocked","type":"image_generation_user_error"}})",
            400),
        ErrorCode::content_filtered);
    expect_failure<ProviderError>(json(R"({"error":{"message":"odd size"}})", 400),
                                  ErrorCode::bad_request);
    expect_failure<ProviderError>(json("<html>"), ErrorCode::protocol);
    expect_failure<ProviderError>(json(R"({"data":[]})"), ErrorCode::protocol);
    expect_failure<ProviderError>(
        MemoryResponse(200)
            .with_header("content-type", "text/event-stream")
            .with_event(R"({"type":"error","error":{"message":"broke","type":"server_error"}})"),
        ErrorCode::unavailable);
}

TEST(Images, D7_Abort_IsAResultWithoutOutput) {
    std::stop_source stop;
    Studio studio(answers(MemoryResponse(200)
                              .with_header("content-type", "application/json")
                              .with_call([&] { stop.request_stop(); })
                              .with_stall()));
    std::size_t told = 0;
    studio.provider.subscribe_response([&](const ImagesOutcome& outcome, const ImagesModel&) {
        told += outcome.images && outcome.images->aborted() ? 1 : 0;
    });
    ImagesOptions options = studio.options().stop_token(stop.get_token());
    const AssistantImages drawn =
        run(studio.provider.generate_images(studio.provider.model("m"), teapot(), options));
    EXPECT_TRUE(drawn.aborted());
    EXPECT_TRUE(drawn.output.empty());
    EXPECT_EQ(told, 1U);
    EXPECT_EQ(studio.transport->open_exchanges(), 0U);
    // Aborted before it begins: nothing is sent.
    EXPECT_TRUE(run(studio.provider.generate_images(studio.provider.model("m"), teapot(), options))
                    .aborted());
    EXPECT_EQ(studio.transport->requests().size(), 1U);
}

TEST(Images, Hooks_SeeAndChangeTheRequest) {
    Studio studio(answers(json(one_image)));
    int status = 0;
    ImagesOptions options =
        studio.options()
            .on_payload([](JsonObject payload, ImagesModel) -> Task<std::optional<JsonObject>> {
                payload["user"] = "u1";
                std::optional<JsonObject> changed = std::move(payload);
                co_return changed;
            })
            .on_response([&](ProviderResponse response, ImagesModel) -> Task<void> {
                status = response.status;
                co_return;
            });
    run(studio.provider.generate_images(studio.provider.model("m"), teapot(), options));
    EXPECT_EQ(studio.sent().at("user"), Json("u1"));
    EXPECT_EQ(status, 200);
}

TEST(Images, HookException_IsThrownWithCauseWithoutRetry) {
    for (const bool at_response : {false, true}) {
        Studio studio(answers(json(one_image)));
        ImagesOptions options = studio.options();
        if (at_response) {
            options = ImagesOptions(std::move(options))
                          .on_response([](ProviderResponse, ImagesModel) -> Task<void> {
                              throw Error(ErrorCode::disconnected, "no");
                          });
        } else {
            options =
                ImagesOptions(std::move(options))
                    .on_payload([](JsonObject, ImagesModel) -> Task<std::optional<JsonObject>> {
                        throw Error(ErrorCode::disconnected, "no");
                    });
        }
        const std::string name = at_response ? "on_response" : "on_payload";
        try {
            run(studio.provider.generate_images(studio.provider.model("m"), teapot(), options));
            ADD_FAILURE() << name;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::disconnected);
            EXPECT_EQ(std::string(error.what()), "hook " + name + " failed: no");
            std::string cause;
            try {
                std::rethrow_if_nested(error);
            } catch (const Error& nested) {
                cause = nested.what();
            }
            EXPECT_EQ(cause, "no");
        }
        EXPECT_EQ(studio.transport->requests().size(), at_response ? 1U : 0U);
    }
}

TEST(Images, ThrowingObserver_DoesNotFailTheCall) {
    Studio studio({json(one_image), json(one_image)});
    int calls = 0;
    const auto unsubscribe =
        studio.provider.subscribe_request([&](const JsonObject&, const ImagesModel&) {
            ++calls;
            throw std::runtime_error("boom");
        });
    EXPECT_EQ(studio.draw(teapot()).images().size(), 1U);
    unsubscribe();
    EXPECT_EQ(studio.draw(teapot()).images().size(), 1U);
    EXPECT_EQ(calls, 1);
}

TEST(Images, Cost_FollowsThePriceOfTheModel) {
    AssistantImages drawn;
    drawn.output = {ImageContent{.source = "QUJD"}, ImageContent{.source = "QUJD"}};
    drawn.metadata["size"] = "1000x500";
    ImagesModel model;
    EXPECT_FALSE(cost_of(drawn, model));
    model.cost.emplace().per_image = 0.04;
    EXPECT_DOUBLE_EQ(*cost_of(drawn, model), 0.08);
    model.cost->per_image.reset();
    model.cost->per_megapixel = 0.1;
    EXPECT_DOUBLE_EQ(*cost_of(drawn, model), 0.1);
    drawn.metadata["size"] = "auto";
    EXPECT_FALSE(cost_of(drawn, model));
}

TEST(Images, FauxProvider_DrawsForTests) {
    FauxImagesProvider faux;
    ImagesContext context = teapot();
    context.n = 3;
    EXPECT_EQ(run(faux.generate_images(faux.model("m"), context)).images().size(), 3U);
    FauxImagesProvider broken({}, std::make_exception_ptr(std::runtime_error("no paint")));
    EXPECT_THROW(run(broken.generate_images(broken.model("m"), context)), std::runtime_error);
}

TEST(Base64, Decode_ReturnsTheBytesOrThrows) {
    EXPECT_EQ(detail::from_base64(""), "");
    EXPECT_EQ(detail::from_base64("QQ=="), "A");
    EXPECT_EQ(detail::from_base64("QUI="), "AB");
    EXPECT_EQ(detail::from_base64("QUJD\nREVG"), "ABCDEF");
    EXPECT_EQ(detail::from_base64("/+8="), "\xff\xef");
    EXPECT_THROW(detail::from_base64("a-b"), Error);
}

}  // namespace
}  // namespace cubepi
