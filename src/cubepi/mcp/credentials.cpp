#include <cubepi/mcp/credentials.hpp>

#include <utility>

#include <cubepi/core/support/json_member.hpp>

namespace cubepi {

namespace {

class MemoryCredentials final : public McpCredentialStore {
public:
    Task<McpCredentials> load() override { co_return credentials_; }
    Task<> save(McpCredentials credentials) override {
        credentials_ = std::move(credentials);
        co_return;
    }

private:
    McpCredentials credentials_;
};

}  // namespace

Task<std::shared_ptr<void>> McpCredentialStore::lock() { co_return nullptr; }

std::shared_ptr<McpCredentialStore> mcp_memory_credentials() {
    return std::make_shared<MemoryCredentials>();
}

JsonObject to_json(const McpCredentials& credentials) {
    JsonObject client;
    client["id"] = credentials.client.id;
    client["secret"] = credentials.client.secret;
    client["auth_method"] = credentials.client.auth_method;
    client["redirect_uri"] = credentials.client.redirect_uri;
    client["secret_expires_at"] = credentials.client.secret_expires_at;
    JsonObject json;
    json["issuer"] = credentials.issuer;
    json["client"] = std::move(client);
    json["access_token"] = credentials.access_token;
    json["refresh_token"] = credentials.refresh_token;
    json["scope"] = credentials.scope;
    json["expires_at"] = credentials.expires_at;
    return json;
}

McpCredentials mcp_credentials_from_json(const JsonObject& json) {
    McpCredentials credentials;
    credentials.issuer = detail::text_member(json, "issuer");
    credentials.access_token = detail::text_member(json, "access_token");
    credentials.refresh_token = detail::text_member(json, "refresh_token");
    credentials.scope = detail::text_member(json, "scope");
    credentials.expires_at = detail::integer_member(json, "expires_at").value_or(0);
    if (const JsonObject* client = detail::object_member(json, "client")) {
        credentials.client.id = detail::text_member(*client, "id");
        credentials.client.secret = detail::text_member(*client, "secret");
        credentials.client.auth_method = detail::text_member(*client, "auth_method");
        credentials.client.redirect_uri = detail::text_member(*client, "redirect_uri");
        credentials.client.secret_expires_at =
            detail::integer_member(*client, "secret_expires_at").value_or(0);
    }
    return credentials;
}

}  // namespace cubepi
