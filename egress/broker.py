"""The only way out of a machine: judges every guest connection, relays what is granted.

One `Broker` per run. The channel calls `handle` in a thread of its own for each connection that the
guest opens; a failure there fails that request and nothing else. Without a working audit log
nothing is let through (`failure` then says why).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from egress.audit import AuditBroken
from egress.dial import Resolve, system_resolve
from egress.forward import Abortable, Forwarder, Passage
from egress.guest import (
    BadRequest,
    Duplex,
    GuestConnection,
    GuestGone,
    GuestLimits,
    RequestHead,
    close_quietly,
)
from egress.inject import Credential, Origin, check_credentials, strip_guest
from egress.ledger import Ledger, Log, ModelCall
from egress.meter import Meter, OverCap, Reservation
from egress.policy import (
    BadManifest,
    Grant,
    GrantKind,
    Manifest,
    Phase,
    Refusal,
    Wire,
    check_manifest,
    decide_model,
)
from egress.relay import NO_RETRY, Outcome, Relay, plan_request, read_model
from egress.target import Verdict, clean_target, judge
from egress.tunnel import TunnelLimits
from egress.upstream import Exchange, UpstreamLimits, UpstreamRequest, tls_context
from egress.vendors import CallError, ErrorAnswer, budget_answer, message_of, shown
from egress.watchdog import Guard, Watchdog


@dataclass(frozen=True)
class Limits:
    """What one connection may take, on either side."""

    guest: GuestLimits = field(default_factory=GuestLimits)
    upstream: UpstreamLimits = field(default_factory=UpstreamLimits)
    tunnel: TunnelLimits = field(default_factory=TunnelLimits)


class _Line:
    """One guest connection and what it is waiting for: ended together, from any thread."""

    def __init__(self, duplex: Duplex, admit: Callable[[_Line, Grant], None]) -> None:
        self._duplex = duplex
        self._admit = admit
        self._lock = threading.Lock()
        self._held: Abortable | None = None
        self._ended = False

    def bind(self, grant: Grant) -> None:
        """End with the grant's phases. BadRequest when they are over already."""
        self._admit(self, grant)

    def hold(self, other: Abortable) -> None:
        with self._lock:
            self._held = other
            if self._ended:
                other.abort()

    def attach(self, exchange: Exchange) -> Exchange:
        self.hold(exchange)
        return exchange

    def end(self) -> None:
        with self._lock:
            self._ended = True
            if self._held is not None:
                self._held.abort()
        close_quietly(self._duplex)


class Broker:
    """Serves one run's connections by its manifest.

    Errors at construction: `BadManifest`, `BadCredential`, OSError for an unreadable `upstream_ca`.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        credentials: Mapping[str, Credential],
        meter: Meter,
        audit: Log,
        clock: Callable[[], float] = time.time,
        upstream_ca: str | None = None,
        phase: Phase = Phase.AGENT,
        limits: Limits | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        check_manifest(manifest)
        check_credentials(_origins(manifest), credentials)
        self._phase = phase
        self._lines: dict[_Line, Grant] = {}
        self._lines_lock = threading.Lock()
        self._manifest = manifest
        self._credentials = dict(credentials)
        self._meter = meter
        self._clock = clock
        self._limits = limits or Limits()
        self._ledger = Ledger(audit, manifest.run_id, clock)
        self._forwarder = Forwarder(self._ledger, self._limits.tunnel, resolve)
        self._watchdog = Watchdog()
        self._dead: dict[str, tuple[CallError, ErrorAnswer]] = {}
        self._over: OverCap | None = None
        self._failure: str | None = None
        # A tunnel's TLS is the guest's own.
        routes = (grant for grant in manifest.grants if grant.kind is GrantKind.MODEL_ROUTE)
        secure = upstream_ca or any(route.scheme == "https" for route in routes)
        self._tls = tls_context(upstream_ca) if secure else None

    def handle(self, duplex: Duplex) -> None:
        """Serve one guest connection to its end. Blocking."""
        line = _Line(duplex, self._admit)
        guard = self._watchdog.guard(line.end)
        try:
            if guard is not None:
                guest = GuestConnection(duplex, guard, self._limits.guest)
                self._serve(_Guest(line, guard, guest))
        finally:
            self._leave(line)
            self._release(guard)
            close_quietly(duplex)

    @property
    def phase(self) -> Phase:
        """What the run is doing; grants belong to phases."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        """Enter a phase: tunnels that do not belong to it end here."""
        with self._lines_lock:
            self._phase = phase
            over = [line for line, grant in self._lines.items() if phase not in grant.phases]
        for line in over:
            line.end()

    def _admit(self, line: _Line, grant: Grant) -> None:
        with self._lines_lock:
            if self._phase not in grant.phases or grant not in self._manifest.grants:
                raise BadRequest(403, f"grant {grant.name!r} is not for {self._phase} any more")
            self._lines[line] = grant

    def _leave(self, line: _Line) -> None:
        with self._lines_lock:
            self._lines.pop(line, None)

    @property
    def manifest(self) -> Manifest:
        """What the run may reach now."""
        return self._manifest

    def narrow(self, manifest: Manifest) -> None:
        """Take grants away; what they carry ends. BadManifest when any would be new."""
        if new := set(manifest.grants) - set(self._manifest.grants):
            names = ", ".join(sorted(grant.name for grant in new))
            raise BadManifest(f"a run's grants can only be narrowed; new would be {names}")
        with self._lines_lock:
            self._manifest = manifest
            over = [line for line, grant in self._lines.items() if grant not in manifest.grants]
        for line in over:
            line.end()

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the listed refusals so far, oldest first."""
        return self._ledger.refusals()

    @property
    def refusal_count(self) -> int:
        """All refusals, those beyond the listed ones included."""
        return self._ledger.refusal_count()

    def observations(self) -> tuple[ModelCall, ...]:
        """Return every model call so far, in the order of their ends."""
        return self._ledger.calls()

    @property
    def final_error(self) -> CallError | None:
        """Why asking the model again is of no use: a dead key, no quota, a reached cap."""
        if self._over is not None:
            return CallError.BUDGET
        return next((error for error, _ in list(self._dead.values())), None)

    @property
    def over_cap(self) -> OverCap | None:
        """The cap that ended the model's calls, if one did."""
        return self._over

    @property
    def failure(self) -> str | None:
        """Why this broker lets nothing through any more; None while it works."""
        return self._failure

    def close(self) -> None:
        """Abort every connection and wait for its last record; idempotent. AuditBroken."""
        self._watchdog.close()
        self._ledger.close()

    def _release(self, guard: Guard | None) -> None:
        if guard is not None:
            self._watchdog.release(guard)

    def _serve(self, at: _Guest) -> None:
        try:
            while self._serve_one(at):
                self._leave(at.line)
        except GuestGone:
            return
        except AuditBroken as error:
            self._failure = str(error)
            self._answer_failure(at.guest)

    def _serve_one(self, at: _Guest) -> bool:
        """Serve one request; say whether another may follow."""
        guest = at.guest
        try:
            head = guest.read_head()
            if head is None:
                return False
            if self._failure is not None:
                raise AuditBroken(self._failure)
            self._serve_request(at, head)
        except BadRequest as error:
            self._refuse(guest, error)
            return False
        return guest.reusable

    def _serve_request(self, at: _Guest, head: RequestHead) -> None:
        shown = clean_target(head.method, head.target)
        phase = self._phase
        verdict = judge(self._manifest, phase, head)
        grant = verdict.grant
        if grant is None:
            at.guest.skip_body()
            raise BadRequest(verdict.status, verdict.reason, shown)
        if grant.kind is GrantKind.MODEL_ROUTE:
            self._serve_model(at, verdict, grant, head, shown)
        else:
            self._note_credentials(head, shown)
            self._forwarder.serve(
                Passage(at.line, at.guest, at.guard, phase, grant, verdict, head, shown)
            )

    def _note_credentials(self, head: RequestHead, shown: str) -> None:
        """A guest has no credential for anything: one that it sends is not passed on."""
        for attempt in strip_guest(head.headers, "").attempts:
            self._refuse_credential(shown, attempt)

    def _serve_model(
        self, at: _Guest, verdict: Verdict, grant: Grant, head: RequestHead, shown: str
    ) -> None:
        body = at.guest.read_body()
        model = read_model(body, shown, verdict.model)
        decision = decide_model(grant, model)
        if not decision.allowed:
            raise BadRequest(403, decision.reason, shown)
        call = _Call(verdict, grant, grant.wire or Wire.OPENAI, model, shown)
        self._serve_call(at.line, at.guest, call, head, body)

    def _serve_call(
        self, line: _Line, guest: GuestConnection, call: _Call, head: RequestHead, body: bytes
    ) -> None:
        if call.grant.name in self._dead:
            self._answer_own(guest, call, *self._dead[call.grant.name])
            return
        reserved = self._meter.reserve(call.model, call.grant.name, len(body))
        if isinstance(reserved, OverCap):
            self._over = self._over or reserved
            answer = budget_answer(call.wire, reserved.text)
            self._answer_own(guest, call, CallError.BUDGET, answer, reserved.text)
            return
        self._ask_upstream(line, guest, call, self._plan(call, head, body), reserved)

    def _plan(self, call: _Call, head: RequestHead, body: bytes) -> UpstreamRequest:
        stripped = strip_guest(head.headers, call.verdict.query)
        for attempt in stripped.attempts:
            self._refuse_credential(call.shown, attempt)
        self._ledger.allow(self.phase, call.grant, call.shown, call.model)
        return plan_request(call.grant, self._key(call.grant), stripped, call.verdict.path, body)

    def _refuse_credential(self, target: str, attempt: str) -> None:
        reason = f"the guest sent a credential of its own: {attempt}"
        self._ledger.refuse(self.phase, target, reason)

    def _ask_upstream(
        self,
        line: _Line,
        guest: GuestConnection,
        call: _Call,
        request: UpstreamRequest,
        reserved: Reservation,
    ) -> None:
        at, begun = self._clock(), time.monotonic()

        def done(outcome: Outcome) -> None:
            cost = self._meter.settle(reserved, outcome.tokens)
            self._note_outcome(call, outcome)
            self._ledger.call(
                call.ended(at, outcome, cost, time.monotonic() - begun, asked_upstream=True)
            )

        relay = Relay(guest, call.wire, self._key(call.grant), len(request.body), done)
        relay.run(lambda: line.attach(Exchange(request, self._tls, self._limits.upstream)))

    def _note_outcome(self, call: _Call, outcome: Outcome) -> None:
        if outcome.final is not None and outcome.error is not None:
            self._dead.setdefault(call.grant.name, (outcome.error, outcome.final))
        if outcome.redirect:
            reason = f"the upstream answered {outcome.status}, a redirect; it was not followed"
            self._ledger.refuse(self.phase, call.shown, reason)
        if outcome.echoes:
            reason = f"the upstream sent the injected key back ({outcome.echoes}x); redacted"
            self._ledger.refuse(self.phase, call.shown, reason)

    def _answer_own(
        self,
        guest: GuestConnection,
        call: _Call,
        error: CallError,
        answer: ErrorAnswer,
        detail: str = "",
    ) -> None:
        """Answer without the upstream: the same error again, or the cap's."""
        outcome = Outcome(answer.status, error, detail=detail or message_of(answer.body))
        self._ledger.call(call.ended(self._clock(), outcome, 0.0, 0.0, asked_upstream=False))
        guest.answer(answer.status, answer.body, answer.content_type, [NO_RETRY])

    def _refuse(self, guest: GuestConnection, error: BadRequest) -> None:
        """Record a refusal, then tell the guest why. The connection ends with it."""
        self._ledger.refuse(self.phase, error.target, error.reason)
        text = f"Drydock refused this request: {error.reason}\n".encode("ascii", "replace")
        guest.answer(error.status, text, "text/plain; charset=utf-8", [("connection", "close")])

    def _answer_failure(self, guest: GuestConnection) -> None:
        if guest.answered:
            return
        text = b"Drydock cannot record its decisions, so it lets nothing through.\n"
        try:
            guest.answer(503, text, "text/plain; charset=utf-8", [("connection", "close")])
        except GuestGone:
            return

    def _key(self, grant: Grant) -> Credential | None:
        return self._credentials[grant.credential] if grant.credential else None


@dataclass(frozen=True)
class _Guest:
    """One guest connection at work."""

    line: _Line
    guard: Guard
    guest: GuestConnection


@dataclass(frozen=True)
class _Call:
    """One granted model call: what was asked, as it is shown."""

    verdict: Verdict
    grant: Grant
    wire: Wire
    model: str
    shown: str

    def ended(
        self,
        at: float,
        outcome: Outcome,
        cost: float | None,
        seconds: float,
        *,
        asked_upstream: bool,
    ) -> ModelCall:
        return ModelCall(
            at=at,
            route=self.grant.name,
            status=outcome.status,
            input_tokens=outcome.tokens.all_input,
            output_tokens=outcome.tokens.output,
            cost_usd=cost,
            seconds=seconds,
            error=outcome.error,
            model=self.model,
            estimated=outcome.tokens.estimated,
            asked_upstream=asked_upstream,
            detail=shown(outcome.detail),
        )


def _origins(manifest: Manifest) -> dict[str, Origin]:
    return {
        grant.credential: (grant.scheme, grant.host, grant.port)
        for grant in manifest.grants
        if grant.credential is not None
    }
