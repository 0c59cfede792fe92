#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/mcp/http/endpoint.hpp>
#include <cubepi/mcp/http/parameter_headers.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {
namespace {

TEST(McpHeaders, Values_SurviveEncoding) {
    EXPECT_EQ(encode_mcp_header("plain text"), "plain text");
    EXPECT_EQ(encode_mcp_header("Grüße"), "=?base64?R3LDvMOfZQ==?=");
    for (const std::string value :
         {"", "plain", " blank ", "Grüße", "a\r\nb: c", "=?base64?x?=", "\x01"}) {
        const std::string encoded = encode_mcp_header(value);
        EXPECT_TRUE(is_http_field_value(encoded));
        EXPECT_EQ(decode_mcp_header(encoded), value);
    }
    for (const std::string invalid :
         {"=?base64?R3?=", "=?base64?R3=?=", "=?base64?!!!!?=", "=?base64?/w==?="}) {
        EXPECT_EQ(decode_mcp_header(invalid), std::nullopt) << invalid;
    }
}

std::string problem_of(const std::string& schema) {
    try {
        (void)header_parameters(parse_json(schema));
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(McpHeaders, Annotations_AreFoundAndChecked) {
    const auto found = header_parameters(parse_json(
        R"({"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},
            "b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"Count"}}}},
            "default":{"x-mcp-header":"data"}})"));
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[1].header, "Count");
    EXPECT_EQ(found[1].path, (std::vector<std::string>{"b", "c"}));
    const auto property = [](const std::string& members) {
        return problem_of(R"({"properties":{"a":{)" + members + "}}}");
    };
    EXPECT_NE(property(R"("type":"number","x-mcp-header":"X")"), "");
    EXPECT_NE(property(R"("type":"string","x-mcp-header":"a b")"), "");
    EXPECT_NE(property(R"("type":"string","x-mcp-header":"")"), "");
    EXPECT_NE(property(R"("type":"string","x-mcp-header":7)"), "");
    EXPECT_NE(problem_of(R"({"x-mcp-header":"X"})"), "");
    EXPECT_NE(problem_of(R"({"items":{"type":"string","x-mcp-header":"X"}})"), "");
    EXPECT_NE(problem_of(R"({"$defs":{"d":{"type":"string","x-mcp-header":"X"}}})"), "");
    EXPECT_NE(problem_of(R"({"properties":{"a":{"type":"string","x-mcp-header":"X"},
                                            "b":{"type":"string","x-mcp-header":"x"}}})"),
              "");
}

TEST(McpHeaders, Arguments_AreRepeatedAndCompared) {
    const auto parameters = header_parameters(parse_json(
        R"({"properties":{"a":{"type":"string","x-mcp-header":"A"},"n":{"type":"integer","x-mcp-header":"N"},
            "t":{"type":"boolean","x-mcp-header":"T"}}})"));
    JsonObject arguments;
    arguments["a"] = "x";
    arguments["n"] = 42;
    arguments["t"] = nullptr;
    HttpHeaders headers;
    add_parameter_headers(headers, parameters, arguments);
    EXPECT_EQ(headers.get("Mcp-Param-A"), "x");
    EXPECT_EQ(headers.get("Mcp-Param-N"), "42");
    EXPECT_EQ(headers.find("Mcp-Param-T"), nullptr);
    EXPECT_EQ(check_parameter_headers(headers, parameters, arguments), "");
    headers.set("Mcp-Param-N", "42.0");
    EXPECT_EQ(check_parameter_headers(headers, parameters, arguments), "");
    headers.set("Mcp-Param-N", "43");
    EXPECT_NE(check_parameter_headers(headers, parameters, arguments), "");
    headers.set("Mcp-Param-N", "42");
    headers.set("Mcp-Param-T", "true");
    EXPECT_NE(check_parameter_headers(headers, parameters, arguments), "");
    headers.remove("Mcp-Param-T");
    headers.remove("Mcp-Param-A");
    EXPECT_NE(check_parameter_headers(headers, parameters, arguments), "");
}

TEST(McpOrigin, Redirects_StayAtTheOrigin) {
    EXPECT_EQ(mcp_url_origin("HTTPS://Host:8443/mcp"), "https://host:8443");
    EXPECT_EQ(mcp_url_origin("ftp://host/"), "");
    EXPECT_EQ(mcp_url_origin("http://user@host/"), "");
    EXPECT_EQ(mcp_url_origin("http:///x"), "");
    const std::string url = "https://host/mcp";
    EXPECT_EQ(same_origin_url(url, "/mcp/"), "https://host/mcp/");
    EXPECT_EQ(same_origin_url(url, "https://HOST/x"), "https://HOST/x");
    for (const std::string other :
         {"http://host/mcp", "https://host:444/mcp", "//evil/mcp", "https://host@evil/",
          "https://host.evil/", "relative", "", "/\\evil", "https://host\\@evil/"}) {
        EXPECT_EQ(same_origin_url(url, other), std::nullopt) << other;
    }
}

}  // namespace
}  // namespace cubepi::detail
