// Image generation against aimock: real HTTP on loopback.

#include <cubepi/provider/openai_images.hpp>

#include "aimock.hpp"

namespace cubepi::wire {
namespace {

class AimockImages : public AimockTest {
protected:
    static OpenAIImagesProvider images() {
        OpenAIImagesOptions options;
        options.api_key = "sk-test";
        options.base_url = url + "/v1";
        options.retry.base_delay = std::chrono::milliseconds(1);
        return OpenAIImagesProvider(std::move(options));
    }
    static AssistantImages draw(ImagesContext context, ImagesOptions options = {}) {
        OpenAIImagesProvider provider = images();
        return run(provider.generate_images(provider.model("gpt-image-2"), std::move(context),
                                            std::move(options)));
    }
    static ImagesContext prompt(std::string text) {
        ImagesContext context;
        context.prompt = std::move(text);
        return context;
    }
};

TEST_F(AimockImages, CreatesAnImage) {
    const AssistantImages drawn = draw(prompt("teapot"));
    ASSERT_EQ(drawn.images().size(), 2U);
    EXPECT_EQ(drawn.images()[0]->source, "QUJD");
    EXPECT_EQ(drawn.images()[1]->source, "https://cdn.example/2.png");
    const Json calls = journal();
    ASSERT_EQ(calls.as_array().size(), 1U);
    EXPECT_EQ(calls.as_array()[0].at("path"), Json("/v1/images/generations"));
}

TEST_F(AimockImages, EditsAnImage) {
    ImagesContext context = prompt("teapot");
    context.input_images.push_back(ImageContent{.source = "QUJD", .media_type = "image/png"});
    EXPECT_EQ(draw(std::move(context)).images().size(), 2U);
    EXPECT_EQ(journal().as_array().at(0).at("path"), Json("/v1/images/edits"));
}

TEST_F(AimockImages, D15_RateLimitsAreTypedAndRetried) {
    int retries = 0;
    ImagesOptions options = ImagesOptions().on_event(
        [&](const ImagesEvent& event) { retries += event.notice.code == "retry" ? 1 : 0; });
    OpenAIImagesOptions patient;
    patient.api_key = "sk-test";
    patient.base_url = url + "/v1";
    patient.retry.max_retries = 0;
    OpenAIImagesProvider provider(std::move(patient));
    try {
        run(provider.generate_images(provider.model("m"), prompt("no paint"), options));
        FAIL() << "no failure";
    } catch (const ProviderError& error) {
        EXPECT_EQ(error.code(), ErrorCode::rate_limited) << error.what();
    }
    EXPECT_EQ(retries, 0);
    EXPECT_THROW(draw(prompt("spilt"), options), ProviderError);
    EXPECT_EQ(retries, 2);
}

}  // namespace
}  // namespace cubepi::wire
