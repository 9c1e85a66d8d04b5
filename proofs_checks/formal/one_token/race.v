(* Two races with the same noise.

   Drafter and verifier run exponential races with common noise: token y arrives after E_y / q_y for the one, E_y / p_y for the other, the
   E_y i.i.d. exponential, and the first token wins. Both end at y with probability 1 / sum_x max(p_x/p_y, q_x/q_y), which is the
   definition here; that the races have it is an integral, and not shown.
   THEOREM (race_match). The sum over y, what such a coupling accepts, lies between (1 - TV)/(1 + TV) and 1 - TV.

   Any finite set of tokens, any real field. *)

From Draft Require Import head problem bound lossy_frontier.

Section Race.
Variables (R : realFieldType) (T : finType) (p q : T -> R).
Hypotheses (p_law : law p) (q_law : law q).
Let TV := total_variation p q.
(* Probability that two exponential races with the same noise both end at y. *)
Definition both y : R := if (p y == 0) || (q y == 0) then 0 else (\sum_x Num.max (p x / p y) (q x / q y))^-1.

Theorem race_match : (1 - TV) / (1 + TV) <= \sum_y both y <= 1 - TV.
Proof.
have [[p0 p1] [q0 q1]] := (p_law, q_law).
have minE : \sum_y Num.min (p y) (q y) = 1 - TV.
  by rewrite /TV /total_variation -[in RHS]p1 -sumrB; apply: eq_bigr => y _; rewrite excess_min; lra.
have TV0 : 0 <= TV by apply: sumr_ge0 => y _; exact: excess_ge0.
have maxE : \sum_y Num.max (p y) (q y) = 1 + TV.
  have h : \sum_y (Num.min (p y) (q y) + Num.max (p y) (q y)) = \sum_y (p y + q y).
    by apply: eq_bigr => y _; case: leP => *; lra.
  by move: h; rewrite !big_split /= minE p1 q1; lra.
have pos : 0 < 1 + TV by lra.
apply/andP; split; rewrite -?minE.
  rewrite mulr_suml; apply: ler_sum => y _; rewrite /both.
  case: ifPn => [/orP[/eqP e|/eqP e]|]; rewrite ?e.
  - by rewrite min_l // mul0r.
  - by rewrite min_r // mul0r.
  rewrite negb_or => /andP[py qy]; have py0 : 0 < p y by rewrite lt_def py p0.
  have qy0 : 0 < q y by rewrite lt_def qy q0.
  set a := Num.min (p y) (q y); have a0 : 0 < a by rewrite lt_minr py0 qy0.
  have bnd : \sum_x Num.max (p x / p y) (q x / q y) <= (1 + TV) / a.
    rewrite -maxE mulr_suml; apply: ler_sum => x _; rewrite le_maxl.
    by apply/andP; split; apply: ler_pmul; rewrite ?invr_ge0 ?p0 ?q0 ?(ltW py0) ?(ltW qy0) ?le_maxr ?lexx ?orbT //
      lef_pinv ?posrE // /a le_minl lexx ?orbT.
  have S0 : 0 < \sum_x Num.max (p x / p y) (q x / q y).
    apply: lt_le_trans (_ : \sum_x p x / p y <= _); last by apply: ler_sum => x _; rewrite le_maxr lexx.
    by rewrite -mulr_suml p1 mul1r invr_gt0.
  rewrite -[a / _]invrK invf_div lef_pinv ?posrE // divr_gt0 //.
apply: ler_sum => y _; rewrite /both; case: ifPn => [_|]; first by rewrite le_minr p0 q0.
rewrite negb_or => /andP[py qy]; have py0 : 0 < p y by rewrite lt_def py p0.
have qy0 : 0 < q y by rewrite lt_def qy q0.
set S := \sum_x _.
have Sp : (p y)^-1 <= S.
  by rewrite -[(p y)^-1]mul1r -p1 mulr_suml; apply: ler_sum => x _; rewrite le_maxr lexx.
have Sq : (q y)^-1 <= S.
  by rewrite -[(q y)^-1]mul1r -q1 mulr_suml; apply: ler_sum => x _; rewrite le_maxr lexx orbT.
have S0 : 0 < S by apply: lt_le_trans Sp; rewrite invr_gt0.
by rewrite le_minr -[p y]invrK -[q y]invrK !lef_pinv ?posrE ?invr_gt0 // Sp Sq.
Qed.
End Race.

Print Assumptions race_match.
