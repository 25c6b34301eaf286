// libcurl, opened when a model is first asked for over the network.
//
// Not linked: a program that only runs models then needs neither libcurl nor what that brings (TLS, LDAP, Kerberos), and one
// build serves distributions whose libcurl carries other symbol versions or another flavour of TLS.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

namespace quern::hub {

struct CurlLibrary {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_set) url_set;
  decltype(&curl_url_get) url_get;
  decltype(&curl_free) free;
  decltype(&curl_getdate) getdate;
};

/// Opened once and kept. Throws Error(QUERN_DEPENDENCY_MISSING) with what to install.
const CurlLibrary& curl_library();

}  // namespace quern::hub
