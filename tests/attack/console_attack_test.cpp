// The web console: secrets that are guessed or altered, and files of a message that are none.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <bub/channel/http_channel.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "attack.hpp"
#include "gateway/console_sessions.hpp"
#include "gateway/gateway_http.hpp"

namespace cubepi::attack {

namespace {

using app::ConsoleSessions;
using app::GatewayRole;

bool is_base64(std::string_view text) {
    return text.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
           std::string_view::npos;
}

/// A text of characters that separate the parts of a data URL, a path, a header or a page.
std::string hostile_text(std::mt19937_64& random) {
    constexpr std::string_view parts[] = {
        "image/png", "text/html", ";base64,", ",",    "\r\nSet-Cookie: a=b",
        "<script>",  "../",       "%00",      "aGk=", "=",
        "é",         "\"",        " "};
    std::string text;
    for (std::size_t i = random() % 5; i > 0; --i) text += parts[random() % std::size(parts)];
    if (random() % 8 == 0) text += std::string(1, '\0');
    if (random() % 16 == 0) text += std::string(300, 'x');
    return text;
}

}  // namespace

TEST(ConsoleAttack, AlteredSecrets_OpenNothing) {
    Row row("console", "links, cookies and ids of logins that were altered");
    std::mt19937_64 random = generator("console secrets");
    ConsoleSessions sessions(Runtime::standard());
    const std::string link = sessions.make_link(GatewayRole::operator_, "olga");
    const std::string other = sessions.make_link(GatewayRole::viewer, "vera");
    const std::optional<std::string> cookie = sessions.log_in(other);
    ASSERT_TRUE(cookie);
    const std::string id = sessions.find(*cookie)->id;
    row.attempt(!sessions.log_in(other), "a link that was used");
    for (std::size_t i = rounds(2'000); i > 0; --i) {
        const std::string wrong_link = altered(link, random);
        row.attempt(!sessions.log_in(wrong_link), wrong_link);
        const std::string wrong_cookie = altered(*cookie, random);
        row.attempt(!sessions.find(wrong_cookie), wrong_cookie);
        const std::string wrong_id = altered(id, random);
        row.attempt(!sessions.end(wrong_id), wrong_id);
        // One is not good in place of another.
        for (const std::string& secret : {link, id}) row.attempt(!sessions.find(secret), secret);
        for (const std::string& secret : {*cookie, id})
            row.attempt(!sessions.log_in(secret), secret);
    }
    EXPECT_TRUE(sessions.find(*cookie));
    EXPECT_TRUE(sessions.log_in(link));
}

TEST(ConsoleAttack, HostileFiles_AreRefusedOrPlainData) {
    Row row("console", "files of a message with forged names, types and contents");
    std::mt19937_64 random = generator("console files");
    for (std::size_t i = rounds(5'000); i > 0; --i) {
        JsonObject file;
        for (const char* key : {"name", "type", "content", "url", "fetch"}) {
            if (random() % 4 != 0) file[key] = hostile_text(random);
            if (random() % 16 == 0) file[key] = JsonObject{{"a", 1}};
        }
        const JsonObject message{{"files", JsonArray{file}}};
        bool held = true;
        try {
            const std::vector<bub::MediaItem> items = bub::message_files(message);
            for (const bub::MediaItem& item : items) {
                const std::string prefix = "data:" + item.mime_type + ";base64,";
                held = item.url.starts_with(prefix) && is_base64(item.url.substr(prefix.size())) &&
                       item.mime_type.find_first_of(" ,;\r\n<") == std::string::npos;
            }
        } catch (const Error& error) {
            held = error.code() == ErrorCode::parse;
        }
        row.attempt(held, boost::json::serialize(message));
    }
}

TEST(ConsoleAttack, D251_HostileSentFiles_AreNeverPages) {
    Row row("console", "sent files with forged names and beginnings");
    std::mt19937_64 random = generator("console sent files");
    const std::string beginnings[] = {
        "\x89PNG\r\n\x1a\n",     "\xff\xd8\xff",    "GIF89a",   "RIFF1234WEBP",
        "<svg onload=alert(1)>", "<!doctype html>", "%PDF-1.7", ""};
    for (std::size_t i = rounds(5'000); i > 0; --i) {
        std::string bytes = beginnings[random() % std::size(beginnings)];
        if (!bytes.empty() && random() % 2 == 0) bytes = altered(bytes, random);
        bytes += hostile_text(random);
        const std::string name = hostile_text(random) + (random() % 2 == 0 ? ".svg" : ".png");
        const HttpServerResponse response = app::file_response(name, bytes);
        const std::string type(response.headers.get("content-type"));
        const std::string shown(response.headers.get("content-disposition"));
        const bool is_image = type == "image/png" || type == "image/jpeg" || type == "image/gif" ||
                              type == "image/webp";
        // A browser that is told that it is a picture decodes it, or shows nothing.
        const bool has_type = is_image ? cubepi::detail::image_type(bytes) == type
                                       : type == "application/octet-stream";
        const bool has_disposition = shown.starts_with(is_image ? "inline; " : "attachment; ") &&
                                     shown.find_first_of("\r\n\\<") == std::string::npos &&
                                     std::count(shown.begin(), shown.end(), '"') == 2;
        const bool is_page = bytes.starts_with("<") && is_image;
        row.attempt(has_type && has_disposition && !is_page, name);
    }
}

}  // namespace cubepi::attack
