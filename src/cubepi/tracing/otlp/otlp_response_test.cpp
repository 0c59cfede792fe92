#include <cubepi/tracing/otlp/otlp_response.hpp>

#include <string>

#include <gtest/gtest.h>

#include <cubepi/tracing/otlp/protobuf_writer.hpp>

namespace cubepi::detail {
namespace {

constexpr const char* protobuf = "application/x-protobuf";
constexpr const char* json = "application/json; charset=utf-8";

std::string partial_message() {
    std::string body;
    ProtobufWriter out(body);
    out.fixed64(7, 1);  // fields that are not known yet
    out.message(1, [&] {
        out.fixed32(9, 1);
        out.varint(1, 3);
        out.text(2, "too old");
    });
    return body;
}

TEST(OtlpResponse, ReadsAPartialSuccess) {
    for (const auto& [body, type] : {
             std::pair<std::string, const char*>(partial_message(), protobuf),
             {R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}})", json},
             {R"({"partialSuccess":{"rejectedDataPoints":3,"errorMessage":"too old"}})", json},
         }) {
        const PartialSuccess partial = read_partial_success(body, type);
        EXPECT_EQ(partial.rejected, 3u) << body;
        EXPECT_EQ(partial.message, "too old") << body;
    }
}

TEST(OtlpResponse, TakesAnythingElseAsASuccess) {
    const std::string whole = partial_message();
    for (const std::string& body :
         {std::string(), std::string("ok"), std::string("{}"), std::string("[1]"),
          std::string("{\"partialSuccess\":1}"),
          std::string(R"({"partialSuccess":{"rejectedSpans":-3}})"), std::string(20, '\xff')}) {
        EXPECT_EQ(read_partial_success(body, protobuf).rejected, 0u) << body;
        EXPECT_EQ(read_partial_success(body, json).rejected, 0u) << body;
    }
    for (std::size_t size = 0; size < whole.size(); ++size)
        (void)read_partial_success(whole.substr(0, size), protobuf);
}

TEST(OtlpResponse, ReadsTheDescriptionOfAnError) {
    std::string status;
    ProtobufWriter out(status);
    out.varint(1, 3);
    out.text(2, "bad data");
    EXPECT_EQ(read_error_message(status, protobuf), "bad data");
    EXPECT_EQ(read_error_message(R"({"code":3,"message":"bad data"})", json), "bad data");
    EXPECT_EQ(read_error_message("bad data", "text/plain"), "bad data");
    EXPECT_EQ(read_error_message("\x01\x02", protobuf), "");
    EXPECT_EQ(read_error_message("nonsense", json), "");
    EXPECT_EQ(read_error_message(" <html>", "text/plain"),
              "an HTML page; check the URL of the collector");
}

TEST(OtlpResponse, D58_TheTextOfAServerHasNoSecretAndIsOneLine) {
    const std::vector<HttpHeader> headers = {HttpHeader("authorization", "Bearer sk-secret"),
                                             HttpHeader("x-key", "abcdef"), HttpHeader("n", "1")};
    EXPECT_EQ(
        safe_server_text("no: Bearer sk-secret, sk-secret,\nabcdefabcdef 1\x1b[0m\xff", headers),
        "no: ***, ***, ****** 1 [0m\xEF\xBF\xBD");
    EXPECT_EQ(safe_server_text(std::string(299, 'x') + "ü", {}).size(), 299u);
}

}  // namespace
}  // namespace cubepi::detail
