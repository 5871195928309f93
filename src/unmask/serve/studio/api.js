// Requests to the server that sent this page, and what to say when they fail.

import { t } from "./i18n.js";

const KEPT = "unmask.key";

/** A failed request, in words for people. */
export class ApiError extends Error {
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

/** Keep the server's key for this tab. */
export const setKey = (key) => sessionStorage.setItem(KEPT, key);

export const get = (path, signal) => request(path, { signal });

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** Run a Hugging Face pipeline of a loaded model. */
export function pipeline(model, task, inputs, parameters, signal) {
  return post(`/models/${encodeURIComponent(model)}/pipeline/${task}`, { inputs, parameters }, signal);
}

async function request(path, options) {
  const key = sessionStorage.getItem(KEPT);
  const headers = new Headers(options.headers);
  let response;
  try {
    if (key) headers.set("Authorization", `Bearer ${key}`);
  } catch {
    throw new ApiError(t("error.key"), 401); // letters that no key has, such as typographic quotation marks
  }
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(t("error.network"));
  }
  const body = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (!response.ok) throw failure(response, body);
  if (body === null) throw new ApiError(t("error.answer"), response.status);
  return body;
}

function failure(response, body) {
  const said = typeof body?.error === "string" ? body.error : (body?.error?.message ?? "");
  if (response.status === 401 || response.status === 403)
    return new ApiError(t("error.key"), response.status);
  if (response.status === 429 || response.status === 503) {
    const seconds = response.headers.get("Retry-After") ?? "1";
    return new ApiError(t("error.busy", { seconds }), response.status);
  }
  if (said) return new ApiError(t("error.refused", { reason: said }), response.status);
  return new ApiError(t("error.status", { status: response.status }), response.status);
}
