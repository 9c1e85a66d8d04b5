(* The laws of a selected draft, and the best acceptance under any law of the drafts.

   THEOREM (selected_laws). Drafts have any law Q. A law m on the tokens is the law of a selected draft, for some way to select
   one of the drafts by all of them, exactly if
       m(H) >= Q(all drafts in H)  for every set H of tokens.
   THEOREM (best_selection). For every target p the most that a lossless rule accepts is
       max sum_y min(p(y), m(y)) over these m  =  min over H of 1 + p(H) - Q(all drafts in H);
   both are attained, and by a rule of the selected-draft form (couple.v).

   THEOREM (least_cut_is_best). That is the value of `least_cut` (rules.v), which tries every set of tokens.

   Any law of the drafts, any finite set of tokens, any real field, any k >= 1. The work is done by Hall's theorem for masses on
   sets (transport.v): drafts hold their probability on the set of their tokens. *)

From Draft Require Import head problem bound couple transport.

Section Hall.
Variables (R : realFieldType) (T : finType) (k : nat) (Q : seq T -> R).
Hypotheses (Q_law : draft_law k Q) (k_pos : (0 < k)%N).
Implicit Types (p m : T -> R) (x : seq T) (H : pred T) (w : seq T -> T -> R).

(* w_x(y), the probability that y is selected from the drafts x: a law on them. *)
Definition selector w := forall x, x \in drafts k -> Q x != 0 -> law (w x) /\ forall y, y \notin x -> w x y = 0.
Definition selected w y := \sum_(x <- drafts k) Q x * w x y.
Definition core m := forall H, inside k Q H <= mass_of m H.

Let Q0 x : 0 <= Q x. Proof. by case: Q_law. Qed.
Let Q1 : \sum_(x <- drafts k) Q x = 1. Proof. by case: Q_law. Qed.
Let drafted x : x \in drafts k -> exists y, y \in x.
Proof.
rewrite mem_drafts; case: x => [/eqP e|y x _]; first by move: k_pos; rewrite -e.
by exists y; rewrite inE eqxx.
Qed.

Lemma selected_law_core w : selector w -> law (selected w) /\ core (selected w).
Proof.
move=> sel; have w0 x y : x \in drafts k -> 0 <= Q x * w x y.
  move=> xk; have [->|ne] := eqVneq (Q x) 0; first by rewrite mul0r.
  by rewrite mulr_ge0 //; case: (sel x xk ne) => [[]].
have w1 x : x \in drafts k -> \sum_y Q x * w x y = Q x.
  move=> xk; have [->|ne] := eqVneq (Q x) 0; first by rewrite big1 // => y _; rewrite mul0r.
  by rewrite -mulr_sumr; case: (sel x xk ne) => [[_ ->]]; rewrite mulr1.
split; first split=> [y|].
- by rewrite /selected big_seq sumr_ge0 // => x; exact: w0.
- by rewrite exchange_big -Q1 !big_seq; apply: eq_bigr => x; exact: w1.
move=> H; rewrite /mass_of exchange_big /inside [leLHS]big_mkcond !big_seq; apply: ler_sum => x xk.
case: ifPn => [/allP inH|_]; last by rewrite sumr_ge0 // => y _; exact: w0.
apply: le_trans (_ : \sum_y Q x * w x y <= _); first by rewrite w1.
rewrite [leLHS](bigID H) /= [X in _ + X]big1 ?addr0 // => y yH.
have [->|ne] := eqVneq (Q x) 0; first by rewrite mul0r.
by case: (sel x xk ne) => _ ->; rewrite ?mulr0 //; apply: contra yH => /inH.
Qed.

(* Hall's theorem: every tuple of drafts stands for a set of tokens of any kind, at least one. *)
Lemma hand_out (T' : finType) (N : seq T -> {set T'}) (room_for : T' -> R) :
  (forall K : {set T'}, \sum_(x <- drafts k | N x \subset K) Q x <= \sum_(y in K) room_for y) ->
  exists2 w, shares w & forall y, \sum_(x <- drafts k) Q x * w (N x) y <= room_for y.
Proof.
move=> fit; pose s S := \sum_(x <- drafts k | N x == S) Q x.
have s0 S : 0 <= s S by apply: sumr_ge0.
have [|w ws h] := transport s0 (m := room_for).
  move=> K; apply: le_trans (fit K); rewrite le_eqVlt; apply/orP; left; apply/eqP.
  rewrite [RHS](partition_big N (fun S => S \subset K)) //=; apply: eq_bigr => S SK.
  by apply: eq_bigl => x; case: eqP => [->|]; rewrite ?SK ?andbF.
exists w => // y; apply: le_trans (h y); rewrite le_eqVlt; apply/orP; left; apply/eqP.
rewrite (partition_big N predT) //=; apply: eq_bigr => S _.
by rewrite mulr_suml; apply: eq_bigr => x /eqP->.
Qed.

Theorem selected_laws m : law m /\ core m <-> exists2 w, selector w & forall y, selected w y = m y.
Proof.
split=> [[[m0 m1] cm]|[w sel e]]; last first.
  have [[l0 l1] c] := selected_law_core sel; split; first split=> [y|]; first by rewrite -e.
    by under eq_bigr do rewrite -e.
  by move=> H; apply: le_trans (c H) _; rewrite /mass_of; under eq_bigr do rewrite e.
have [|w ws h] := @hand_out T (fun x => [set y | y \in x]) m.
  move=> K; apply: le_trans (le_trans (cm (mem K)) _); last by rewrite /mass_of.
  rewrite /inside le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigl => x.
  by apply/subsetP/allP => sub y; have := sub y; rewrite inE.
have sel : selector (fun x => w [set y | y \in x]).
  move=> x /drafted[a ax] _; have [|w0 out w1] := ws [set y | y \in x].
    by apply/set0Pn; exists a; rewrite inE.
  by split=> [|y yx]; [split | apply: out; rewrite inE].
exists (fun x => w [set y | y \in x]) => // y; apply/eqP; rewrite eq_le h /= -subr_le0.
have [[_ total] _] := selected_law_core sel; set v := selected _ in total *.
have : \sum_z (m z - v z) = 0 by rewrite sumrB m1 total subrr.
by move/psumr_eq0P => -> // z _; rewrite subr_ge0; exact: h.
Qed.

(* The rule that selects by w and couples. *)
Definition selecting p w x := couple p (selected w) (first_times (real R) (w x) [::] x) x.

Theorem selecting_rule p w : law p -> selector w ->
  [/\ proper k Q (selecting p w), lossless k Q p (selecting p w)
    & \sum_y Num.min (p y) (selected w y) <= acceptance k Q (selecting p w)].
Proof.
move=> pl sel; pose choice x := first_times (real R) (w x) [::] x.
have size_choice x : size (choice x) = size x by rewrite /choice; move: (w x) (Nil T) => v; elim: x => //= a x ih seen; rewrite ih.
have chosenE x y : x \in drafts k -> Q x != 0 -> chosen (choice x) x y = w x y.
  move=> xk ne; rewrite /chosen first_timesE andbT; case: ifPn => // yx.
  by case: (sel x xk ne) => _ ->.
have c0 x y : x \in drafts k -> Q x != 0 -> 0 <= chosen (choice x) x y.
  by move=> xk ne; rewrite chosenE //; case: (sel x xk ne) => [[]].
have c1 x : x \in drafts k -> Q x != 0 -> \sum_y chosen (choice x) x y = 1.
  by move=> xk ne; under eq_bigr do rewrite chosenE //; case: (sel x xk ne) => [[]].
have cm y : \sum_(x <- drafts k) Q x * chosen (choice x) x y = selected w y.
  rewrite /selected !big_seq; apply: eq_bigr => x xk.
  by have [->|ne] := eqVneq (Q x) 0; rewrite ?mul0r // chosenE.
split; [exact: (couple_proper Q_law pl c0 c1 cm) | exact: (couple_lossless Q_law pl c0 c1 cm) |].
exact: (couple_acceptance Q_law pl c0 c1 cm).
Qed.

(* The best: Hall's theorem with one more token, free for all drafts, which stands for refusal. *)
Theorem best_selection p : law p -> exists w H, let rule := selecting p w in
  [/\ selector w, proper k Q rule /\ lossless k Q p rule,
      acceptance k Q rule = \sum_y Num.min (p y) (selected w y), acceptance k Q rule = 1 + mass_of p H - inside k Q H
    & (forall m, law m -> core m -> \sum_y Num.min (p y) (m y) <= acceptance k Q rule) /\
      (forall other, proper k Q other -> lossless k Q p other -> acceptance k Q other <= acceptance k Q rule)].
Proof.
move=> pl; have [p0 p1] := pl; pose gap (H : {set T}) := mass_of p (mem H) - inside k Q (mem H).
have [H _ least] := @arg_minP _ _ _ set0 predT gap isT.
pose N x : {set option T} := [set z | if z is Some y then y \in x else true].
pose room_for z := if z is Some y then p y else - gap H.
have [K|w ws h] := @hand_out _ N room_for.
  have split_sum : \sum_(z in K) room_for z = (if None \in K then - gap H else 0) + mass_of p (mem [set y | Some y \in K]).
    rewrite big_mkcond (bigD1 None) //=; congr (_ + _).
    rewrite (reindex_omap Some id) /=; last by case.
    by rewrite /mass_of [RHS]big_mkcond /=; apply: eq_big => [y|y _]; rewrite ?eqxx // inE.
  rewrite split_sum; case: ifPn => NK; last first.
    rewrite add0r big1_seq ?sumr_ge0 // => x /andP[/subsetP/(_ None)]; rewrite inE => /(_ isT) inK.
    by rewrite inK in NK.
  have := least [set y | Some y \in K] isT; rewrite /gap => le.
  have -> : \sum_(x <- drafts k | N x \subset K) Q x = inside k Q (mem [set y | Some y \in K]).
    apply: eq_bigl => x; apply/subsetP/allP => [sub y yx|sub [y|//]].
      by have := sub (Some y); rewrite !inE; exact.
    by rewrite inE => /sub /=; rewrite inE.
  lra.
have laws x : x \in drafts k -> [/\ forall z, 0 <= w (N x) z, forall z, z \notin N x -> w (N x) z = 0 & \sum_z w (N x) z = 1].
  by move=> _; apply: ws; apply/set0Pn; exists None; rewrite inE.
have sum_option (f : option T -> R) : \sum_z f z = f None + \sum_y f (Some y).
  rewrite (bigD1 None) //=; congr (_ + _); rewrite (reindex_omap Some id) /=; last by case.
  by apply: eq_bigl => y; rewrite eqxx.
pose first x y : R := if x is a :: _ then (y == a)%:R else 0.
pose v x y := w (N x) (Some y) + w (N x) None * first x y.
have sel : selector v.
  move=> x xk _; have [w0 out w1] := laws x xk; have [a ax] := drafted xk.
  case: x xk ax w0 out w1 => [//|b x] xk ax w0 out w1; split; first split=> [y|].
  - by rewrite /v addr_ge0 // mulr_ge0 // ler0n.
  - have one : \sum_y (y == b)%:R = 1 :> R by rewrite (bigD1 b) //= eqxx big1 ?addr0 // => y /negbTE->.
    by rewrite /v big_split /= -mulr_sumr one mulr1 addrC -sum_option.
  - move=> y yx; rewrite /v out ?inE // /first; move: yx; rewrite inE negb_or => /andP[/negbTE-> _].
    by rewrite mulr0 addr0.
have [vl vc] := selected_law_core sel; have [ok out acc] := selecting_rule pl sel.
have upper other : proper k Q other -> lossless k Q p other -> acceptance k Q other <= 1 + gap H.
  by move=> ok' out'; apply: le_trans (bound Q_law ok' out' (mem H)) _; rewrite /gap addrA.
have lower : 1 + gap H <= \sum_y Num.min (p y) (selected v y).
  apply: le_trans (_ : \sum_y \sum_(x <- drafts k) Q x * w (N x) (Some y) <= _); last first.
    apply: ler_sum => y _; rewrite le_minr h /=; rewrite /selected !big_seq; apply: ler_sum => x xk.
    rewrite ler_wpmul2l // /v ler_addl mulr_ge0 //; first by case: (laws x xk).
    by rewrite /first; case: (x) => // a _; rewrite ler0n.
  rewrite exchange_big /= -Q1 -ler_subr_addl -sumrB; have := h None; rewrite /room_for => hN.
  rewrite -ler_oppr in hN; apply: le_trans hN _; rewrite -sumrN !big_seq; apply: ler_sum => x xk.
  case: (laws x xk) => _ _; rewrite sum_option -mulr_sumr => e.
  by have := congr1 (fun a => Q x * a) e; rewrite mulrDr mulr1; lra.
have best : acceptance k Q (selecting p v) = 1 + gap H.
  by apply/eqP; rewrite eq_le upper //= (le_trans lower acc).
exists v, (mem H); split=> //.
- by apply/eqP; rewrite eq_le acc andbT best.
- by rewrite best /gap addrA.
split=> [m ml mc|other ok' out']; last by rewrite best upper.
have [v' sel' e] := (selected_laws m).1 (conj ml mc); have [ok' out' acc'] := selecting_rule pl sel'.
rewrite best; apply: le_trans (upper _ ok' out'); apply: le_trans acc'.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => y _; rewrite e.
Qed.

(** The least cut, as rules.v computes it. *)

Let cut_value p := rules.cut_value (real R) (index_enum T) k Q p.
Let least_cut p := rules.least_cut (real R) (index_enum T) k Q p.

Lemma cut_valueE p (s : seq T) : uniq s -> cut_value p s = 1 + mass_of p (mem s) - inside k Q (mem s).
Proof. by move=> us; rewrite /cut_value /rules.cut_value !sumE big_filter /mass_of (big_uniq _ us). Qed.
Lemma token_sets_uniq (s H : seq T) : uniq s -> H \in token_sets s -> uniq H.
Proof.
move=> us inH; suff sub : subseq H s by exact: subseq_uniq us.
elim: s H {us} inH => [|y s ih] H /=; first by rewrite inE => /eqP->.
rewrite mem_cat => /orP[/ih sub|/mapP[H' /ih sub ->]]; last by rewrite /= eqxx.
exact: subseq_trans sub (subseq_cons _ _).
Qed.
Lemma filter_token_sets (s : seq T) (H : pred T) : [seq y <- s | H y] \in token_sets s.
Proof.
elim: s => [|y s ih] /=; first by rewrite inE.
by rewrite mem_cat; case: (H y); [apply/orP; right; apply: map_f | rewrite ih].
Qed.
Lemma least_cut_le p H : least_cut p <= 1 + mass_of p H - inside k Q H.
Proof.
pose H' := [seq y <- index_enum T | H y]; have uH : uniq H' by rewrite filter_uniq // index_enum_uniq.
have inH y : (y \in H') = H y by rewrite mem_filter mem_index_enum andbT.
have -> : 1 + mass_of p H - inside k Q H = cut_value p H'.
  rewrite cut_valueE // /mass_of /inside; congr (_ + _ - _); first by apply: eq_bigl => y; rewrite /= inH.
  by apply: eq_bigl => x; apply: eq_all => y; rewrite /= inH.
have := filter_token_sets (index_enum T) H; rewrite -/H' /least_cut /rules.least_cut -/(cut_value p).
elim: (token_sets _) => [//|S sets ih]; rewrite inE /= leastE le_minl => /orP[/eqP->|/ih->]; first by rewrite lexx.
by rewrite orbT.
Qed.
Lemma least_cut_attained p : exists H, least_cut p = 1 + mass_of p H - inside k Q H.
Proof.
suff [s us ->] : exists2 s, uniq s & least_cut p = cut_value p s by exists (mem s); rewrite cut_valueE.
have := @token_sets_uniq (index_enum T); rewrite /least_cut /rules.least_cut -/(cut_value p).
elim: (token_sets _) => [|S sets ih] all_uniq; first by exists (index_enum T) => //; exact: index_enum_uniq.
have [|s us e] := ih; first by move=> H us inH; apply: all_uniq us _; rewrite inE inH orbT.
rewrite /= leastE e; case: leP => _; last by exists s.
by exists S => //; apply: all_uniq (index_enum_uniq _) _; rewrite inE eqxx.
Qed.

Theorem least_cut_is_best p : law p ->
  (exists2 w, selector w & let rule := selecting p w in
    [/\ proper k Q rule, lossless k Q p rule & acceptance k Q rule = least_cut p])
  /\ forall rule, proper k Q rule -> lossless k Q p rule -> acceptance k Q rule <= least_cut p.
Proof.
move=> pl; have upper rule : proper k Q rule -> lossless k Q p rule -> acceptance k Q rule <= least_cut p.
  by move=> ok out; have [H ->] := least_cut_attained p; exact: bound.
split=> //; have [w [H [sel [ok out] _ e _]]] := best_selection pl; exists w => //; split=> //.
by apply/eqP; rewrite eq_le upper //= e least_cut_le.
Qed.

End Hall.

Print Assumptions selected_laws.
Print Assumptions best_selection.
Print Assumptions least_cut_is_best.
