#include <cubepi/core/http_transport.hpp>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(HttpHeaders, Names_CompareWithoutCase) {
    HttpHeaders headers;
    headers.add("Content-Type", "a");
    headers.add("content-type", "b");
    headers.add("X", "c");
    ASSERT_NE(headers.find("CONTENT-TYPE"), nullptr);
    EXPECT_EQ(*headers.find("CONTENT-TYPE"), "a");
    EXPECT_EQ(headers.find("content"), nullptr);
    EXPECT_EQ(headers.get("missing"), "");
    headers.set("CONTENT-type", "d");
    EXPECT_EQ(headers.size(), 2u);
    EXPECT_EQ(headers.get("content-type"), "d");
    headers.remove("x");
    EXPECT_EQ(headers.size(), 1u);
}

TEST(HttpRequest, Setters_SetTheRequest) {
    const HttpRequest request = HttpRequest("POST", "http://localhost/")
                                    .with_header("a", "1")
                                    .with_body("{}", "application/json")
                                    .with_max_response_bytes(10)
                                    .with_redirects();
    EXPECT_EQ(request.headers.get("A"), "1");
    EXPECT_EQ(request.headers.get("Content-Type"), "application/json");
    EXPECT_EQ(request.body, "{}");
    EXPECT_EQ(request.max_response_bytes, 10u);
    EXPECT_TRUE(request.follow_redirects);
    EXPECT_EQ(request.timeouts.connect, std::chrono::seconds(10));
}

}  // namespace
}  // namespace cubepi
